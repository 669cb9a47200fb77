"""Draws the sections of a result: one self-contained HTML page, a notebook card, figures as files."""

from overparam.report.figure_files import export_figures, save_figure
from overparam.report.page import render_fragment, render_page, write_page

__all__ = ["export_figures", "render_fragment", "render_page", "save_figure", "write_page"]
