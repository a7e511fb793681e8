"""Reports: the summary of a record (docs/json.md) turned into documents.

`profile_report.profile_report` builds the model, `html.render_html` writes it as one self-contained page, `notebook`
holds the short forms. Further renderers work over the same model. Nothing here measures: numbers come from the summary.
"""
