// Tables whose heads sort them, and tables offered as a file; both from the exact values the cells carry.
(() => {
  "use strict";
  const value = (row, column) => row.cells[column]?.dataset.value ?? "";

  // Numbers by size, words by the alphabet, what is missing last, whichever way.
  function compare(a, b, way) {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a), Number(b)];
    return way * (Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y);
  }

  function sortBy(table, head) {
    const heads = [...table.tHead.rows[0].cells];
    const falls = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const column = heads.indexOf(head);
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(value(a, column), value(b, column), falls ? -1 : 1));
    table.tBodies[0].append(...rows);
  }

  function makeSortable(table) {
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      if (table.tBodies[0].querySelector(`tr > :nth-child(${column + 1}) img`)) continue; // pictures have no order
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sortBy(table, head));
    }
  }

  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

  function asFile(table) {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((_, column) => value(row, column)));
    return [heads, ...rows].map((row) => row.map(quoted).join(",") + "\n").join("");
  }

  function makeDownload(figure) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "download";
    button.textContent = `Download ${figure.dataset.file}`;
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([asFile(figure.querySelector("table"))], { type: "text/csv" }));
      link.download = figure.dataset.file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    figure.querySelector(".scroll").after(button);
  }

  for (const table of document.querySelectorAll(".sortable table")) makeSortable(table);
  for (const figure of document.querySelectorAll("figure[data-file]")) makeDownload(figure);
})();
