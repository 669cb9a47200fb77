"""A result inside a notebook: the verdict open, the other sections folded, figures as small inline SVG."""

from __future__ import annotations

from html import escape

from overparam.core.folder import Parts
from overparam.core.sections import Figure, Section, Surface, Table, Text
from overparam.core.words import duration
from overparam.report import blocks, style
from overparam.report.surface_figures import thinned
from overparam.report.surface_svg import render_surface_svg
from overparam.report.svg import render_svg

_POINTS = 200
_ROWS = 20
# JupyterLab and VS Code say which theme they have; elsewhere the fragment is light on a white ground.
_DARK = (
    '[data-jp-theme-light="false"] .overparam',
    ".vscode-dark .overparam",
    'html[theme="dark"] .overparam',
)
_CSS = """
.overparam{background:var(--page);color:var(--ink);font:14px/1.5 var(--font);max-width:760px;
padding:14px 18px;border:1px solid var(--rule);border-radius:8px}
.overparam p{margin:0 0 8px}
.overparam .title{font-size:17px;font-weight:650;margin:0}
.overparam .facts,.overparam .left-out,.overparam figcaption{color:var(--soft);font-size:12.5px}
.overparam .large{font-size:15.5px}
.overparam .good{--edge:var(--good)}
.overparam .warning{--edge:var(--warning)}.overparam .bad{--edge:var(--bad)}
.overparam .remark{padding:2px 10px;border-left:4px solid var(--edge)}
.overparam .state{color:var(--edge);font-weight:600;white-space:nowrap}
.overparam summary{cursor:pointer;font-weight:600;padding:5px 0}
.overparam details{border-top:1px solid var(--rule)}
.overparam figure{margin:8px 0 14px}.overparam .name{font-weight:600;margin:0}
.overparam .scroll{overflow-x:auto}
.overparam table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;color:var(--ink)}
.overparam th,.overparam td{text-align:left;padding:4px 14px 4px 0;background:none;color:var(--ink)}
.overparam thead th{border-bottom:1px solid var(--soft)}
.overparam .number{text-align:right}
.overparam .legend{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:2px 0;
padding:0;font-size:12.5px}
.overparam .legend li{display:flex;align-items:center;gap:6px}
.overparam figure svg[role=img]{display:block;width:100%;max-width:600px;height:auto}
"""


def render_fragment(parts: Parts, *, samples: bool = True) -> str:
    """HTML for `_repr_html_`: no script, nothing loaded, a few tens of kilobytes."""
    made = parts.provenance
    first, rest = list(parts.sections[:1]), list(parts.sections[1:])
    body = "".join(_inside(section, True, samples) for section in first)
    body += "".join(
        f"<details><summary>{escape(section.title)}</summary>{_inside(section, False, samples)}</details>"
        for section in rest
    )
    facts = f"overparam {made.version} · {made.device} · {duration(made.seconds)}"
    return (
        f'<style>{_style()}</style><div class="overparam"><p class="title">{escape(parts.title)}</p>'
        f'<p class="facts">{escape(facts)}</p>{body}</div>'
    )


def _style() -> str:
    light = f".overparam{{{style.variables(style.LIGHT)}--font:{style.FONT}}}"
    dark = f"{','.join(_DARK)}{{{style.variables(style.DARK)}}}"
    return light + dark + style.ink_rules(".overparam") + _CSS.replace("\n", "")


def _inside(section: Section, large: bool, samples: bool) -> str:
    parts = []
    for block in section.blocks:
        if isinstance(block, Text):
            parts.append(blocks.text(block, large=large))
        elif isinstance(block, Table):
            parts.append(blocks.table(block, samples, most_rows=_ROWS))
        elif isinstance(block, Figure):
            parts.append(
                f'<figure><p class="name">{escape(block.title)}</p>{render_svg(block, _POINTS)}'
                f"{blocks.legend(block, button=False)}"
                f"<figcaption>{escape(block.caption)}</figcaption></figure>"
            )
        elif isinstance(block, Surface):
            parts.append(
                f'<figure><p class="name">{escape(block.title)}</p>{render_surface_svg(thinned(block))}'
                f"<figcaption>{escape(block.caption)}</figcaption></figure>"
            )
    return "".join(parts)
