"""Draws the sections of a result: one self-contained HTML page, a notebook fragment, static figures."""

from overparam.report.fragment import render_fragment
from overparam.report.page import render_page, write_page
from overparam.report.static import export_figures, save_figure

__all__ = ["export_figures", "render_fragment", "render_page", "save_figure", "write_page"]
