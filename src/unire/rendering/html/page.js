"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const { labels } = JSON.parse(document.getElementById("labels").textContent);
  const show = (details) => new DocumentView(details, labels, JSON.parse(details.querySelector(":scope > .data").textContent));
  for (const details of document.querySelectorAll(".document")) {
    if (details.open) show(details);
    else details.addEventListener("toggle", () => show(details), { once: true });
  }
});
