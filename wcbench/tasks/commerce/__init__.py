"""Tasks of shops and advertisers: recommendation, ranking, click prediction."""
