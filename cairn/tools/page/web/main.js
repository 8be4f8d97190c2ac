// Puts the page together.
showHead();
showIntegrity();
showChanges();
showSteps();
showAbout();
setUpTable();
showModule(0);
at("close").addEventListener("click", () => at("details").close());
at("details").addEventListener("click", (event) => {
  if (event.target === at("details")) at("details").close();
});
let lastWidth = at("treemap").clientWidth;
addEventListener("resize", () => {
  if (at("treemap").clientWidth === lastWidth) return;
  lastWidth = at("treemap").clientWidth;
  drawTreemap();
  drawRows(true);
});
document.documentElement.dataset.ready = "yes";
