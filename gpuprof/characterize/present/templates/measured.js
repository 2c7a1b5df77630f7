// What the page can do beyond its text: open what is closed, for links and for paper.
(() => {
  "use strict";
  // A region that does not scroll needs neither a stop of the Tab key nor a place among the landmarks.
  const markWhatScrolls = () => {
    const boxes = [...document.querySelectorAll(".scroll")];
    const labels = new Map(boxes.map((box) => [box, box.getAttribute("aria-label")]));
    const toggle = (box) => {
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", labels.get(box)]]) {
        if (scrolls) box.setAttribute(name, value);
        else box.removeAttribute(name);
      }
    };
    const watch = new ResizeObserver((entries) => { for (const { target } of entries) toggle(target); });
    for (const box of boxes) watch.observe(box);
  };

  // What a link leads to may lie in a closed part of the page.
  const openWhatIsLinked = () => {
    const open = () => {
      const item = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      for (let box = item?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
      item?.scrollIntoView();
    };
    addEventListener("hashchange", open);
    if (location.hash) open();
  };

  const openForPrint = () => {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details:not([open])")];
      for (const item of opened) item.open = true;
    });
    addEventListener("afterprint", () => {
      for (const item of opened) item.open = false;
    });
  };

  markWhatScrolls();
  openWhatIsLinked();
  openForPrint();
})();
