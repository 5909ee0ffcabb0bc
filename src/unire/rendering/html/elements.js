"use strict";

/** An HTML element; text goes in as text. */
function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** An SVG element; text goes in as text. */
function svg(name, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** The data that a page holds as JSON. */
function embedded(element) {
  return JSON.parse(element.textContent);
}

/** "1 entity", "1,200 entities". */
function counted(number, one, more) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
}

/** The code of a label in its colour, as in the legend. */
function codeOf({ label, code }) {
  return html("small", { class: "label", title: label }, code);
}

/** The text of an element without the labels of its entities. */
function textOf(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let text = "";
  while (texts.nextNode()) {
    if (!texts.currentNode.parentElement.matches(".label")) text += texts.currentNode.data;
  }
  return text;
}

/** Move something into view, without motion for those who want none. */
function reveal(element, block = "nearest") {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element?.scrollIntoView({ block, inline: "nearest", behavior: still ? "instant" : "smooth" });
}

/**
 * Make the elements of a list one stop for the Tab key. Arrow keys, Home and End go from one to the next.
 *
 *     const settle = oneTabStop(list, "li");
 *     settle();          // call again after elements have come or gone
 */
function oneTabStop(container, selector) {
  const visible = () => [...container.querySelectorAll(selector)].filter((element) => element.checkVisibility());
  const stop = (chosen) => {
    for (const element of container.querySelectorAll(selector)) element.tabIndex = element === chosen ? 0 : -1;
  };
  const settle = () => {
    const elements = [...container.querySelectorAll(selector)].filter((element) => !element.closest("[hidden], .off"));
    stop(elements.find((element) => element.tabIndex === 0) ?? elements[0]);
  };
  container.addEventListener("focusin", ({ target }) => target.matches(selector) && stop(target));
  container.addEventListener("keydown", (event) => {
    if (!event.target.matches(selector) || event.ctrlKey || event.metaKey || event.altKey) return;
    const elements = visible();
    const at = elements.indexOf(event.target);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: elements.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    elements[Math.max(0, Math.min(elements.length - 1, to))].focus();
  });
  return settle;
}
