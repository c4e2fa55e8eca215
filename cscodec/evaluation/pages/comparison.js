"use strict";
// The viewer: one scale and one offset for all panes, so that zoom and place stay in step.
(() => {
  const pictures = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const stage = $("stage");
  const state = { picture: 0, view: "slider", left: 0, right: 1, scale: 0, x: 0, y: 0, split: 50 };
  const HINTS = {
    slider: "Drag the line. To zoom: the buttons, a double click, pinching, or Ctrl and the wheel; then drag the picture.",
    side: "All pictures zoom and move together: the buttons, a double click, pinching, or Ctrl and the wheel.",
    difference: "Black is equal to the original; what is bright was changed. The control sets how much it is brightened.",
  };

  const element = (tag, className, parent) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    return parent.appendChild(made);
  };
  const current = () => pictures[state.picture];
  const images = () => current().images;
  const panes = () => [...stage.querySelectorAll(".pane")];
  const fitScale = () => panes()[0].clientWidth / current().width;

  function addLayer(parent, image) {
    const img = element("img", "", element("div", "layer", parent));
    img.src = image.src;
    img.alt = image.name;
    img.draggable = false;
  }

  function addTag(pane, image, side, note) {
    const tag = element("div", `tag ${side}`, pane);
    element("b", "", tag).textContent = image.name;
    tag.append(note ?? image.label);
  }

  function addPane(shown) {
    const pane = element("div", "pane", stage);
    const stack = element("div", "stack", pane);
    shown.forEach((image) => addLayer(stack, image));
    pane.style.aspectRatio = `${current().width} / ${current().height}`;
    pane.style.maxHeight = "85vh";
    return pane;
  }

  function build() {
    stage.replaceChildren();
    stage.dataset.view = state.view;
    const left = images()[state.left];
    const right = images()[state.right];
    if (state.view === "side") {
      images().forEach((image) => addTag(addPane([image]), image, ""));
    } else if (state.view === "difference") {
      addTag(addPane([images()[0], right]), right, "", `difference × ${$("gain").value}`);
    } else {
      const pane = addPane([left, right]);
      addTag(pane, left, "");
      addTag(pane, right, "right");
      element("div", "", pane).id = "handle";
    }
    $("left-label").hidden = state.view !== "slider";
    $("right-label").hidden = state.view === "side";
    $("split").hidden = state.view !== "slider";
    $("gain").hidden = state.view !== "difference";
    $("hint").textContent = [current().note, HINTS[state.view]].filter(Boolean).join(" ");
    document.querySelectorAll("#views button").forEach((button) =>
      button.setAttribute("aria-pressed", button.dataset.view === state.view));
    document.querySelectorAll("[data-picture]").forEach((table) => {
      table.hidden = Number(table.dataset.picture) !== state.picture;
    });
    place();
  }

  function place() {
    const fit = fitScale();
    const scale = Math.max(state.scale, fit);
    const [pane] = panes();
    const clamp = (offset, size, room) => Math.min(0, Math.max(offset, Math.min(0, room - size * scale)));
    state.x = clamp(state.x, current().width, pane.clientWidth);
    state.y = clamp(state.y, current().height, pane.clientHeight);
    stage.classList.toggle("zoomed", scale > fit * 1.001);
    stage.style.setProperty("--scale", scale);
    stage.style.setProperty("--x", `${state.x}px`);
    stage.style.setProperty("--y", `${state.y}px`);
    stage.style.setProperty("--split", `${state.split}%`);
    stage.style.setProperty("--gain", $("gain").value);
    $("split").value = state.split;
    document.querySelectorAll("#zooms button").forEach((button) => {
      const wanted = button.dataset.zoom === "fit" ? fit : Number(button.dataset.zoom);
      button.setAttribute("aria-pressed", Math.abs(scale / wanted - 1) < 0.01);
    });
  }

  function zoom(scale, x, y) {
    const before = Math.max(state.scale, fitScale());
    const after = Math.min(16, Math.max(scale, fitScale()));
    state.x = x - ((x - state.x) * after) / before;
    state.y = y - ((y - state.y) * after) / before;
    state.scale = after <= fitScale() ? 0 : after;
    place();
  }

  function zoomAtMiddle(scale) {
    const [pane] = panes();
    zoom(scale, pane.clientWidth / 2, pane.clientHeight / 2);
  }

  // Pointers: one moves the line or the picture, two pinch.
  const pointers = new Map();
  let draggingLine = false;
  const within = (pane, event) => {
    const box = pane.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  stage.addEventListener("pointerdown", (event) => {
    const pane = event.target.closest(".pane");
    if (!pane) return;
    pane.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { pane, at: within(pane, event) });
    draggingLine = state.view === "slider" &&
      (event.target.id === "handle" || !stage.classList.contains("zoomed"));
    if (draggingLine) moveLine(pane, within(pane, event)[0]);
  });

  stage.addEventListener("pointermove", (event) => {
    const pointer = pointers.get(event.pointerId);
    if (!pointer) return;
    const at = within(pointer.pane, event);
    const others = [...pointers.values()].filter((other) => other !== pointer);
    if (others.length) {
      const [ox, oy] = others[0].at;
      const apart = ([x, y]) => Math.hypot(x - ox, y - oy) || 1;
      zoom((Math.max(state.scale, fitScale()) * apart(at)) / apart(pointer.at), ox, oy);
    } else if (draggingLine) {
      moveLine(pointer.pane, at[0]);
    } else {
      state.x += at[0] - pointer.at[0];
      state.y += at[1] - pointer.at[1];
      place();
    }
    pointer.at = at;
  });

  for (const end of ["pointerup", "pointercancel"]) {
    stage.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }

  function moveLine(pane, x) {
    state.split = Math.min(100, Math.max(0, (100 * x) / pane.clientWidth));
    place();
  }

  stage.addEventListener("wheel", (event) => {
    const pane = event.target.closest(".pane");
    if (!pane || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(Math.max(state.scale, fitScale()) * Math.exp(-event.deltaY / 300), ...within(pane, event));
  }, { passive: false });

  stage.addEventListener("dblclick", (event) => {
    const pane = event.target.closest(".pane");
    if (pane) zoom(stage.classList.contains("zoomed") ? 0 : Math.max(2, 2 * fitScale()), ...within(pane, event));
  });

  // Controls.
  const fill = (select, names, chosen) => {
    select.replaceChildren(...names.map((name, index) => new Option(name, index)));
    select.value = chosen;
  };
  const choose = (picture) => {
    Object.assign(state, { picture, scale: 0, x: 0, y: 0 });
    const names = images().map((image) => image.name);
    fill($("left"), names, state.left);
    fill($("right"), names, state.right);
    build();
  };
  $("picture").onchange = (event) => choose(Number(event.target.value));
  for (const side of ["left", "right"]) {
    $(side).onchange = (event) => { state[side] = Number(event.target.value); build(); };
  }
  $("split").oninput = (event) => { state.split = Number(event.target.value); place(); };
  $("gain").oninput = () => build();
  $("views").onclick = (event) => {
    if (event.target.dataset.view) { state.view = event.target.dataset.view; build(); }
  };
  $("zooms").onclick = (event) => {
    const wanted = event.target.dataset.zoom;
    if (wanted) zoomAtMiddle(wanted === "fit" ? 0 : Number(wanted));
  };
  window.addEventListener("resize", () => { if (pictures.length) place(); });

  if (pictures.length) {
    $("viewer").hidden = false;
    $("which").hidden = pictures.length < 2;
    fill($("picture"), pictures.map((picture) => picture.name), 0);
    choose(0);
  }
})();
