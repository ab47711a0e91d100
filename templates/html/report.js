
// What makes the report handier. It is whole without: all texts, tables and charts are in the document.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);

  // Tables: a click on a heading sorts, numbers with the greatest first; what has no value comes last.
  function value(cell) {
    if (!cell) return NaN;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return cell.classList.contains("n") ? parseFloat(text.replace(/[\s<>]/g, "").replace("−", "-")) : text;
  }
  function compare(a, b, sign) {
    if (typeof a === "string") return sign * a.localeCompare(b, undefined, { numeric: true });
    return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0;
  }
  function sort(heading) {
    const table = heading.closest("table"), body = table.tBodies[0];
    const numeric = heading.classList.contains("n");
    const now = heading.getAttribute("aria-sort");
    const next = now === "none" ? (numeric ? "descending" : "ascending")
      : now === "ascending" ? "descending" : "ascending";
    all("thead th", table).forEach((one) => one.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", next);
    const rows = [...body.rows].map((row) => [value(row.cells[heading.cellIndex]), row]);
    rows.sort((a, b) => compare(a[0], b[0], next === "ascending" ? 1 : -1));
    body.append(...rows.map((pair) => pair[1]));
  }
  all("thead button").forEach((button) => button.addEventListener("click", () => sort(button.closest("th"))));

  // A row stays if it has all words of the filter and the chosen values; sums are those of the rows that stay.
  function number(text) {
    return parseFloat(text.replace(/[\s<>]/g, "").replace("−", "-"));
  }
  function filterable(bar) {
    const box = bar.closest(".table"), table = box.querySelector("table"), rows = [...table.tBodies[0].rows];
    const input = bar.querySelector("input"), left = bar.querySelector("output"), sums = all("[data-sum]", box);
    const choices = [];
    let texts = null;
    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      texts ??= rows.map((row) => row.textContent.toLowerCase());
      rows.forEach((row, n) => {
        row.hidden = !words.every((word) => texts[n].includes(word))
          || !choices.every(([column, choice]) => !choice.value || row.cells[column].textContent === choice.value);
      });
      const shown = rows.filter((row) => !row.hidden);
      left.textContent = shown.length < rows.length ? `${shown.length} / ${rows.length}` : "";
      sums.forEach((cell) => {
        const values = shown.map((row) => number(row.cells[cell.cellIndex].textContent)).filter((one) => !Number.isNaN(one));
        const sum = values.reduce((a, b) => a + b, 0);
        cell.textContent = Number.isInteger(sum) ? sum : Number(sum.toPrecision(4));
      });
    }
    if (box.matches(".all")) {
      [...table.tHead.rows[0].cells].forEach((heading, column) => {
        const values = [...new Set(rows.map((row) => row.cells[column].textContent))];
        if (column === 0 || heading.matches(".n") || values.length < 2 || values.length > 20) return;
        const label = document.createElement("label"), choice = document.createElement("select");
        choice.add(new Option(bar.dataset.all, ""));
        values.sort().forEach((one) => choice.add(new Option(one)));
        label.append(`${heading.textContent} `, choice);
        left.before(label, " ");
        choices.push([column, choice]);
      });
    }
    bar.addEventListener("input", apply);
    if (sums.length > 0) apply();
  }
  const bars = all(".filter").filter((bar) => bar.closest(".table"));
  bars.forEach(filterable);
  // By the name in the address: that of the table, and from its second control on the control's number.
  const filters = new Map(bars.flatMap((bar) => all("input, select", bar).map((control, n) => (
    [`${bar.closest(".table").id}${n ? `.${n}` : ""}`, control]))));

  // Switches. The theme is remembered where the browser lets a file do so.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const press = (id, is) => byId(id).setAttribute("aria-pressed", is);
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  function remembered(theme) {
    try {
      if (theme) localStorage.setItem("rooflens-theme", theme);
      return localStorage.getItem("rooflens-theme");
    } catch {
      return null;
    }
  }
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  press("theme", isDark());
  dark.addEventListener("change", () => press("theme", isDark()));
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    press("theme", isDark());
  });
  if (!all("tbody code").some((code) => code.textContent.length > 80)) byId("names").remove();
  else byId("names").addEventListener("click", () => press("names", root.classList.toggle("names")));
  const parts = all("details");
  if (parts.length === 0) byId("unfold").remove();
  else byId("unfold").addEventListener("click", () => {
    const open = !parts.every((part) => part.open);
    parts.forEach((part) => { part.open = open; });
    press("unfold", open);
  });

  // Tables that are too wide: first texts wrap, then each row becomes a list of its cells. Charts say that they scroll.
  function fit(panel) {
    const isWide = (box) => box.scrollWidth > box.clientWidth + 1;
    const boxes = all(".scroll", panel), table = (box) => box.querySelector("table");
    boxes.forEach((box) => table(box).classList.remove("tight", "stacked"));
    all(".chart", panel).forEach((box) => box.parentElement.classList.toggle("wide", isWide(box)));
    // What is wide is asked of all before one changes: each answer after a change lays out the whole page.
    const wide = boxes.filter((box) => box.clientWidth > 0 && isWide(box));
    wide.forEach((box) => table(box).classList.add("tight"));
    wide.filter(isWide).map(table).forEach((one) => {
      one.classList.add("stacked");
      const titles = [...one.tHead.rows[0].cells].map((heading) => heading.textContent);
      all("tbody tr, tfoot tr", one).forEach((row) => [...row.cells].forEach((cell, n) => { cell.dataset.label = titles[n]; }));
    });
  }

  // Tabs: the place in the address decides which one is shown, and what is selected: `#kernels?kernel=gemm`.
  const panels = all(".panel"), tabs = new Map(all("#tabs a").map((link) => [link.hash.slice(1), link]));
  let shown = null;
  function open(panel) {
    if (panel === shown) return;
    shown = panel;
    panels.forEach((one) => one.classList.toggle("shown", one === panel));
    tabs.forEach((link, id) => (id === panel.id ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
    fit(panel);
  }
  function reveal(target) {
    open(target.closest(".panel") ?? panels[0]);
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName !== "DETAILS" || part.open) continue;
      part.open = true;
      fit(part);
    }
    target.scrollIntoView({ block: "start" });
  }
  // Many may open at once, and to fit each lays out the page.
  let due = 0;
  all("details").forEach((part) => part.addEventListener("toggle", () => {
    due ||= setTimeout(() => {
      due = 0;
      fit(shown);
    });
  }));
  // Paper has a width of its own, which tables are fitted to before they are printed.
  addEventListener("beforeprint", () => {
    root.classList.add("paper");
    panels.forEach(fit);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    fit(shown);
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) fit(shown);
    width = innerWidth;
  });
  function follow() {
    const [id, query] = location.hash.slice(1).split("?");
    const target = id && byId(decodeURIComponent(id));
    if (target) reveal(target);
    else if (!shown) open(panels[0]);
    // A link within the page keeps the selection and the filters.
    if (target && query === undefined) return remember();
    const state = new URLSearchParams(query);
    filters.forEach((control, name) => {
      if (!state.has(name)) return;
      control.value = state.get(name);
      control.dispatchEvent(new Event("input", { bubbles: true }));
    });
    select(state.get("kernel"));
  }
  function remember(place = location.hash.slice(1).split("?")[0] || shown.id) {
    const state = new URLSearchParams(selected ? { kernel: selected } : {});
    filters.forEach((control, name) => control.value && state.set(name, control.value));
    history.replaceState(null, "", `#${place}${state.size ? `?${state}` : ""}`);
  }
  bars.forEach((bar) => bar.addEventListener("change", () => remember()));

  // A selected kernel is marked wherever it is shown: rows, marks of charts, findings, iterations.
  const bar = byId("selection"), kernels = new Set(all(".table.all tbody th code").map((code) => code.textContent));
  const views = [];
  let selected = null;
  // What a mark says begins with the name of its kernel.
  function kernelOf(mark) {
    const said = mark.dataset.tip;
    const ends = [...said.matchAll(/$|,| ·/g)].map((found) => said.slice(0, found.index));
    return ends.find((name) => kernels.has(name));
  }
  function select(name) {
    all(".found").forEach((one) => one.classList.remove("found"));
    selected = name;
    bar.hidden = !name;
    views.forEach((view) => view.mark(name));
    if (!name) return;
    const places = new Map();
    const found = (one) => {
      one.classList.add("found");
      const panel = one.closest(".panel");
      places.set(panel, [...(places.get(panel) ?? []), one]);
    };
    all("tbody code").filter((code) => code.textContent === name).forEach((code) => found(code.closest("tr")));
    marks.filter((mark) => kernelOf(mark) === name).forEach(found);
    all(".finding").filter((one) => all("code", one).some((code) => code.textContent === name)).forEach(found);
    views.filter((view) => view.has(name)).forEach((view) => found(view.figure));
    bar.querySelector("code").textContent = name;
    bar.querySelector("span").replaceChildren(...panels.filter((panel) => places.has(panel)).flatMap((panel) => {
      const link = document.createElement("button"), ones = places.get(panel);
      let next = 0;
      link.type = "button";
      link.textContent = `${panel.querySelector("h2").textContent} (${ones.length})`;
      link.addEventListener("click", () => {
        const one = ones[next++ % ones.length];
        reveal(one);
        one.scrollIntoView({ block: "center" });
        remember(panel.id);
      });
      return [link, " "];
    }));
  }
  function choose(name) {
    select(name === selected ? null : name);
    remember();
  }
  bar.querySelector(":scope > button").addEventListener("click", () => choose(selected));
  all("tbody code, .finding code").filter((code) => kernels.has(code.textContent)).forEach((code) => {
    code.tabIndex = 0;
    code.setAttribute("role", "button");
    code.addEventListener("click", () => choose(code.textContent));
    code.addEventListener("keydown", (event) => event.key === "Enter" && choose(code.textContent));
  });

  // An action leads to its finding, a finding to the iterations of its stage.
  all("[data-finding]").forEach((link) => {
    const finding = byId(`finding-${link.dataset.finding}`);
    if (finding) link.href = `#${finding.id}`;
    else link.remove();
  });
  all(".finding a[href='#iterations']").forEach((link) => link.addEventListener("click", () => {
    views.forEach((view) => view.stage(link.closest(".finding").dataset.stage));
  }));

  // Charts: the titles of marks become tooltips without delay; a click on a mark goes to the row of its name.
  all("figure svg").forEach((svg) => {
    for (const title of all("title", svg)) {
      if (title.parentElement === svg) svg.setAttribute("aria-label", title.textContent);
      else title.parentElement.dataset.tip = title.textContent;
      title.remove();
    }
    const description = svg.querySelector("desc");
    if (description) svg.setAttribute("aria-description", description.textContent);
  });
  const marks = all(".chart [data-tip]"), tip = byId("tip");
  function explain(text, x, y) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(y + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }
  addEventListener("pointermove", (event) => explain(event.target.dataset?.tip, event.clientX, event.clientY));
  // Charts can be looked at closely: buttons, the keys + - 0 and arrows, Ctrl and the wheel, dragging. The keys n and p go
  // from mark to mark, Enter selects the kernel of a mark.
  function zoomable(chart) {
    const svg = chart.querySelector("svg"), whole = svg.viewBox.baseVal;
    const own = all("[data-tip]", chart);
    chart.tabIndex = 0;
    chart.setAttribute("role", "group");
    chart.setAttribute("aria-label", svg.getAttribute("aria-label"));
    chart.setAttribute("aria-keyshortcuts", "+ - 0 n p");
    function step(by) {
      const at = own.indexOf(document.activeElement), mark = own[at < 0 ? 0 : at + by];
      if (!mark) return;
      mark.setAttribute("tabindex", -1);
      mark.setAttribute("role", kernelOf(mark) ? "button" : "img");
      mark.setAttribute("aria-label", mark.dataset.tip);
      mark.focus();
      const room = mark.getBoundingClientRect();
      explain(mark.dataset.tip, room.right, room.bottom);
    }
    chart.addEventListener("focusout", () => { tip.hidden = true; });
    const [width, height] = [whole.width, whole.height];
    let view = { x: 0, y: 0, scale: 1 }, from = null, moved = false;
    function show(x, y, scale) {
      scale = Math.max(1, Math.min(scale, 60));
      const within = (at, size) => Math.max(0, Math.min(at, size - size / scale));
      view = { x: within(x, width), y: within(y, height), scale };
      svg.setAttribute("viewBox", `${view.x} ${view.y} ${width / scale} ${height / scale}`);
      chart.classList.toggle("zoomed", scale > 1);
    }
    // What lies at a share of the width and height stays there.
    function zoom(factor, across = 0.5, down = 0.5) {
      const scale = Math.max(1, Math.min(view.scale * factor, 60));
      const change = 1 / view.scale - 1 / scale;
      show(view.x + across * width * change, view.y + down * height * change, scale);
    }
    const pan = (across, down) =>
      show(view.x + across * width / view.scale, view.y + down * height / view.scale, view.scale);
    const actions = { in: () => zoom(1.6), out: () => zoom(1 / 1.6), reset: () => show(0, 0, 1) };
    const keys = {
      "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.reset,
      ArrowLeft: () => pan(-0.15, 0), ArrowRight: () => pan(0.15, 0),
      ArrowUp: () => pan(0, -0.15), ArrowDown: () => pan(0, 0.15),
      n: () => step(1), p: () => step(-1), Enter: () => pick(document.activeElement),
    };
    chart.append(byId("zoom").content.cloneNode(true));
    all("[data-zoom]", chart).forEach((one) => one.addEventListener("click", actions[one.dataset.zoom]));
    chart.addEventListener("keydown", (event) => {
      const isArrow = event.key.startsWith("Arrow"), isButton = event.target.matches("button") && event.key === "Enter";
      if (!keys[event.key] || event.ctrlKey || event.metaKey || isButton || (isArrow && view.scale === 1)) return;
      event.preventDefault();
      keys[event.key]();
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const room = svg.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1.25 : 0.8,
        (event.clientX - room.left) / room.width, (event.clientY - room.top) / room.height);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY };
      moved = false;
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from || view.scale === 1 || !event.buttons) return;
      const room = svg.getBoundingClientRect();
      pan((from.x - event.clientX) / room.width, (from.y - event.clientY) / room.height);
      from = { x: event.clientX, y: event.clientY };
      moved = true;
    });
    function pick(mark) {
      const name = mark.dataset.tip && kernelOf(mark);
      if (name) choose(name);
    }
    svg.addEventListener("click", (event) => moved || pick(event.target));
  }
  all(".chart").forEach(zoomable);

  // Iterations: each operation and the call that launched it. The data is inflated when it comes into sight.
  async function inflated(text) {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  }
  function laidOut(iteration) {
    const events = [];
    const lanes = iteration.lanes.map((lane, row) => {
      let end = 0, call = 0;
      return { label: lane.label, events: lane.name.map((name, n) => {
        const start = end + lane.gap[n];
        end = start + lane.duration[n];
        if (lane.call[n] !== null) call += lane.call[n];
        const event = { row, name, start, end, call: lane.call[n] === null ? null : call };
        events.push(event);
        return event;
      }) };
    });
    return { ...iteration, lanes, events };
  }
  function time(ns) {
    const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
    return `${Number((ns / unit[0]).toPrecision(3))} ${unit[1]}`;
  }
  function iterations(figure, given) {
    const [list, canvas, output] = ["select", "canvas", "output"].map((name) => figure.querySelector(name));
    const ink = canvas.getContext("2d"), left = 130, row = 40, top = 20, hint = output.textContent;
    let shown = null, view = [0, 1], chosen = null, marked = null, from = null, moved = false, width = 0;
    const x = (at) => left + (at - view[0]) / (view[1] - view[0]) * width;
    const middle = (event) => top + event.row * row + row / 2;
    function box(event, least) {
      const [a, b] = [Math.max(left, x(event.start)), Math.min(left + width, x(event.end))];
      return [a, Math.max(b - a, least)];
    }
    function axis() {
      const span = view[1] - view[0], step = 10 ** Math.floor(Math.log10(span / 3));
      const ticks = span / step > 12 ? step * 5 : span / step > 6 ? step * 2 : step;
      ink.fillStyle = "#52606d";
      for (let at = Math.ceil(view[0] / ticks) * ticks; at <= view[1]; at += ticks) {
        ink.fillRect(x(at), top - 4, 1, 4);
        ink.fillText(at === 0 ? "0" : time(at), x(at) + 3, 12);
      }
    }
    function lane(one, at) {
      const y = top + at * row;
      ink.fillStyle = "#52606d";
      ink.fillText(one.label, 4, y + row / 2 + 4, left - 10);
      ink.fillStyle = "#edf2f7";
      ink.fillRect(left, y + 2, width, row - 4);
      let last = -1;
      for (const event of one.events) {
        if (event.end < view[0]) continue;
        if (event.start > view[1]) break;
        const [a, size] = box(event, 1);
        // Several within a pixel are one mark.
        if (a + size <= last) continue;
        last = a + size;
        const [name, color] = shown.names[event.name];
        ink.globalAlpha = marked && marked !== name ? 0.25 : 1;
        ink.fillStyle = color;
        ink.fillRect(a, y + 3, size > 3 ? size - 0.5 : size, row - 6);
        ink.globalAlpha = 1;
        if (size < 40) continue;
        ink.save();
        ink.beginPath();
        ink.rect(a, y, size - 4, row);
        ink.clip();
        const light = [1, 3, 5].reduce((sum, n) => sum + parseInt(color.slice(n, n + 2), 16), 0) > 380;
        ink.fillStyle = light ? "#1f2933" : "#fff";
        ink.fillText(name, a + 4, y + row / 2 + 4);
        ink.restore();
      }
    }
    function mark(event) {
      const [a, size] = box(event, 2);
      ink.strokeStyle = "#1f2933";
      ink.lineWidth = 2;
      if (event.end >= view[0] && event.start <= view[1]) ink.strokeRect(a, top + event.row * row + 2, size, row - 4);
      if (event.call === null) return;
      const call = shown.events[event.call];
      const clamp = (at) => Math.max(left, Math.min(left + width, x(at)));
      ink.lineWidth = 1;
      ink.beginPath();
      ink.moveTo(clamp(call.start), middle(call));
      ink.lineTo(clamp(event.start), middle(event));
      ink.stroke();
    }
    function draw() {
      const scale = devicePixelRatio || 1, height = top + shown.lanes.length * row + 4;
      canvas.style.height = `${height}px`;
      // Without a width it is out of sight; the observer draws it when that changes.
      const whole = canvas.clientWidth;
      if (whole === 0) return;
      width = whole - left;
      [canvas.width, canvas.height] = [whole * scale, height * scale];
      ink.setTransform(scale, 0, 0, scale, 0, 0);
      ink.font = "12px sans-serif";
      axis();
      shown.lanes.forEach(lane);
      if (chosen) mark(chosen);
    }
    function look(start, span) {
      const [first, last] = [Math.min(0, ...shown.lanes.map((one) => one.events[0]?.start ?? 0)), shown.extent];
      span = Math.max(50, Math.min(span, last - first));
      start = Math.max(first, Math.min(start, last - span));
      view = [start, start + span];
      draw();
    }
    function zoom(factor, share = 0.5) {
      const span = (view[1] - view[0]) / factor;
      look(view[0] + share * (view[1] - view[0] - span), span);
    }
    const pan = (share) => look(view[0] + share * (view[1] - view[0]), view[1] - view[0]);
    const whole = () => look(0, shown.extent);
    function pick(event) {
      chosen = event;
      const said = (text, one, more) => text.replace(/%(\w+)/g, (_, key) => (
        { name: shown.names[one.name][0], duration: time(one.end - one.start), start: time(one.start), ...more }[key]));
      const call = event && event.call !== null && shown.events[event.call];
      output.textContent = !event ? hint : said(figure.dataset.event, event)
        + (call ? `; ${said(figure.dataset.call, call, { before: time(event.start - call.start) })}` : "");
      draw();
    }
    // The next or former one of the lane, which comes into sight.
    function step(by) {
      const at = shown.lanes.at(-1), own = shown.lanes[chosen?.row ?? -1] ?? at;
      const event = own.events[chosen ? own.events.indexOf(chosen) + by : 0];
      if (!event) return;
      const span = view[1] - view[0];
      if (event.start < view[0] || event.start > view[1]) look(event.start - span / 2, span);
      pick(event);
    }
    function show(at) {
      shown = laidOut(given[at]);
      chosen = null;
      output.textContent = hint;
      whole();
    }
    const keys = {
      "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: whole,
      ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), n: () => step(1), p: () => step(-1),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    canvas.parentElement.append(byId("zoom").content.cloneNode(true));
    const actions = { in: () => zoom(1.6), out: () => zoom(1 / 1.6), reset: whole };
    all("[data-zoom]", figure).forEach((one) => one.addEventListener("click", actions[one.dataset.zoom]));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, (event.offsetX - left) / width);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      [from, moved] = [event.clientX, false];
      canvas.setPointerCapture(event.pointerId);
    });
    function under(event) {
      const own = shown.lanes[Math.floor((event.offsetY - top) / row)]?.events ?? [];
      const near = (one) => {
        const [a, size] = box(one, 3);
        return event.offsetX >= a - 1 && event.offsetX <= a + size + 1;
      };
      return own.find((one) => one.end >= view[0] && one.start <= view[1] && near(one)) ?? null;
    }
    canvas.addEventListener("pointermove", (event) => {
      const one = under(event);
      canvas.dataset.tip = one ? `${shown.names[one.name][0]} · ${time(one.end - one.start)}` : "";
      if (from === null || !event.buttons) return;
      moved ||= Math.abs(event.clientX - from) > 3;
      if (!moved) return;
      pan((from - event.clientX) / width);
      from = event.clientX;
    });
    canvas.addEventListener("pointerup", (event) => {
      from = null;
      if (!moved) pick(under(event));
    });
    new ResizeObserver(draw).observe(figure);
    given.forEach((one, at) => list.add(new Option(one.label, at)));
    list.addEventListener("change", () => show(Number(list.value)));
    const named = (one, name) => one.names.some(([other]) => other === name);
    views.push({
      figure,
      has: (name) => given.some((one) => named(one, name)),
      // All operations of the selected kernel stand out.
      mark: (name) => {
        if (name && !named(shown, name)) {
          const at = given.findIndex((one) => named(one, name));
          if (at >= 0) turnTo(at);
        }
        marked = name;
        draw();
      },
      stage: (stage) => {
        const at = given.findIndex((one) => one.label.includes(stage));
        if (at >= 0) turnTo(at);
      },
    });
    function turnTo(at) {
      list.value = at;
      show(at);
    }
    show(0);
  }
  Promise.all(all("[data-iterations]").map(async (figure) => {
    iterations(figure, await inflated(figure.dataset.iterations));
  })).then(() => selected && select(selected));
  addEventListener("hashchange", follow);
  follow();
})();
