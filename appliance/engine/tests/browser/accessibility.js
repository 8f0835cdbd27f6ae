// What axe would find first: names, labels, landmarks, headings, contrast, widths. Returns a list.
() => {
  const found = [];
  const shown = (one) => {
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && box.width > 0 && box.height > 0;
  };
  const name = (one) => (one.getAttribute("aria-label")
    || (one.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ")
    || [...(one.labels ?? [])].map((label) => label.textContent).join(" ")
    || one.textContent || "").trim();
  const told = (one) => one.outerHTML.slice(0, 120);

  if (!document.documentElement.lang) found.push("the page has no language");
  if (!document.title.trim()) found.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1) found.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  let level = 1;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) found.push(`a heading is left out before ${told(heading)}`);
    level = own;
  }
  for (const one of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, progress, meter, [role=log]")) {
    if (!name(one)) found.push(`no name: ${told(one)}`);
  }
  for (const nav of document.querySelectorAll("nav, section, [role=search]")) {
    if (!name(nav)) found.push(`a landmark has no name: ${told(nav)}`);
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption) found.push("a table has no caption");
    for (const head of table.querySelectorAll("th")) if (!head.scope) found.push(`no scope: ${told(head)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) found.push(`twice: #${id}`);
  for (const one of document.querySelectorAll("[aria-describedby], [aria-labelledby]")) {
    for (const attribute of ["aria-describedby", "aria-labelledby"]) {
      for (const id of (one.getAttribute(attribute) || "").split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) found.push(`#${id} is not there: ${told(one)}`);
      }
    }
  }
  if ([...document.querySelectorAll("[tabindex]")].some((one) => one.tabIndex > 0)) found.push("its own order");

  // Contrast of texts by WCAG 2: 4.5 to 1, or 3 to 1 for large ones.
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((one) => {
    const part = one / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !shown(one) || one.closest("noscript, option")) continue;
    const style = getComputedStyle(one);
    const [first, second] = [luminance(parse(style.color)), luminance(behind(one))];
    const contrast = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`contrast ${contrast.toFixed(2)}: ${told(one)}`);
  }

  const extra = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (extra > 0) found.push(`it scrolls sideways by ${extra} pixels`);
  return found;
}
