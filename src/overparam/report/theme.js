// Sets the remembered theme before anything is painted, so that a dark page does not flash white.
try {
  const kept = localStorage.getItem("overparam-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch (error) {
  // Storage may be forbidden for local files; the theme of the system is used then.
}
