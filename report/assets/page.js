// Draws the charts: text and axes in the colour of the text round them, light or dark.
(function () {
  "use strict";
  var root = document.documentElement;
  var charts = JSON.parse(document.getElementById("charts").textContent);
  var text = "currentColor";
  // Vega measures text with it, so it must be one that every browser has under the same name.
  var font = "sans-serif";
  var config = {
    background: null,
    font: font,
    view: { stroke: null },
    axis: {
      labelColor: text, titleColor: text, domainColor: text, tickColor: text, gridColor: text,
      domainOpacity: 0.5, tickOpacity: 0.5, gridOpacity: 0.13,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 260
    },
    legend: {
      labelColor: text, titleColor: text, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal", symbolStrokeWidth: 2, symbolSize: 120, labelLimit: 320
    },
    header: { labelColor: text, titleColor: text, labelFontSize: 13, titleFontSize: 13 },
    title: { color: text },
    rule: { color: text },
    point: { color: text },
    text: { color: text }
  };
  var drawn = charts.map(function (chart) {
    var at = document.querySelector('[data-chart="' + chart.id + '"]');
    var spec = vegaLite.compile(chart.spec, { config: config }).spec;
    var view = new vega.View(vega.parse(spec), { renderer: "svg", container: at, hover: true });
    return view.runAsync();
  });
  Promise.all(drawn).then(
    function () { root.dataset.charts = "drawn"; },
    function (error) { root.dataset.charts = "failed"; console.error(error); }
  );
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (d) { d.open = false; });
  });
})();
