"use strict";
// All that a report does beyond being read: themes, contents, and tables that sort and filter. Nothing is asked
// for or stored, and text reaches the page as text only. Without this script the page is whole.
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  // --- light and dark: the system's choice until the button is pressed ---
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("Theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const nameButton = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameButton();
  });
  system.addEventListener("change", nameButton);
  nameButton();
  button.hidden = false;

  // --- contents: open beside the text, folded above it ---
  const wide = matchMedia("(min-width: 75rem)");
  const nav = document.querySelector("nav");
  const fold = nav.querySelector("details");
  const links = all("details a", nav);
  const heads = links.map((link) => document.getElementById(link.hash.slice(1)));
  const folded = () => { if (fold) fold.open = wide.matches; };
  const top = (head) => head.getBoundingClientRect().top;

  const current = () => {
    const end = scrollY + innerHeight >= root.scrollHeight - 2;
    const asked = links.findIndex((link) => link.hash === location.hash);
    if (end && asked >= 0 && top(heads[asked]) > 0) return asked;
    return heads.findLastIndex((head) => end || top(head) < innerHeight / 3);
  };
  const mark = () => {
    const now = current();
    links.forEach((link, index) => {
      if (index !== now) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "location");
        if (wide.matches) nav.scrollTop = link.offsetTop - nav.clientHeight / 2;
      }
    });
  };
  let waiting = false;
  const markSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  };
  const close = () => {
    if (!fold || !fold.open || wide.matches) return;
    if (fold.contains(document.activeElement)) fold.querySelector("summary").focus();
    fold.open = false;
  };
  wide.addEventListener("change", folded);
  addEventListener("scroll", markSoon, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  addEventListener("click", (event) => {
    if (!event.target.closest("nav") || event.target.closest("nav a")) close();
  });
  folded();
  mark();

  // --- tables ---
  const words = new Intl.Collator("en", { numeric: true });
  const LONG = 8; // a table with more rows, and text in them, has a filter

  const sortable = (table, rows) => {
    const heads = [...table.tHead.rows[0].cells];
    const show = (head, column) => {
      const text = head.matches(".text, .name");
      const ways = text ? ["ascending", "descending"] : ["descending", "ascending"];
      const next = ways[ways.indexOf(head.ariaSort) + 1]; // none: back to the order of the report
      for (const one of heads) one.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      const keys = new Map(rows.map((row) => [row, key(row.cells[column], text)]));
      const sign = next === "ascending" ? 1 : -1;
      const order = (a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (x === null || y === null) return (x === null) - (y === null); // absent ones are last, both ways
        return sign * (text ? words.compare(x, y) : x - y);
      };
      table.tBodies[0].append(...(next ? [...rows].sort(order) : rows));
    };
    heads.forEach((head, column) => {
      const press = make("button", { type: "button" }, ...head.childNodes);
      press.addEventListener("click", () => show(head, column));
      head.append(press);
    });
  };
  const key = (cell, text) => {
    if (text) return cell.classList.contains("none") ? null : cell.textContent;
    return "v" in cell.dataset ? Number(cell.dataset.v) : null;
  };

  const searchable = (table, rows) => {
    const caption = table.caption.firstElementChild;
    const box = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    const named = make("span", { className: "unseen", textContent: ` the rows of: ${caption.textContent}` });
    const said = make("span", { className: "said" });
    said.setAttribute("role", "status");
    const beyond = Number(table.dataset.hidden || 0).toLocaleString("en");
    const search = () => {
      const asked = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !asked.every((word) => text.includes(word));
      }
      const rest = table.dataset.hidden ? `; ${beyond} more are not on this page` : "";
      const left = rows.filter((row) => !row.hidden).length;
      said.textContent = asked.length ? `${left} of ${rows.length} rows${rest}` : "";
    };
    box.addEventListener("input", search);
    const label = make("label", {}, make("span", {}, "Filter", named), box);
    table.caption.append(make("span", { className: "tools" }, label, said));
  };

  for (const table of all("main table")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length > 1) sortable(table, rows);
    if (rows.length > LONG && table.querySelector("th.text, th.name")) searchable(table, rows);
  }

  // --- a table is a stop for the Tab key only where it scrolls ---
  const scrollers = all(".scroll");
  const stops = () => {
    const needed = scrollers.map((one) => one.scrollWidth > one.clientWidth);
    scrollers.forEach((one, index) => one.toggleAttribute("tabindex", needed[index]));
    scrollers.forEach((one, index) => { if (needed[index]) one.tabIndex = 0; });
  };
  addEventListener("resize", stops);
  stops();
})();
