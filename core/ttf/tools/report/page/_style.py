"""The page's style: light and dark by the reader's setting, one column on a phone."""

from __future__ import annotations

from typing import Final

LIGHT: Final = ("#2563a8", "#b4560f", "#2d7d46", "#b0243c", "#6a4c93", "#0f766e", "#7a6a00")
DARK: Final = ("#7ab4f0", "#f0a060", "#7fcf96", "#f08094", "#bba2e8", "#5fd0c5", "#d9c75a")


def _theme(ink: str, soft: str, line: str, page: str, box: str, colours: tuple[str, ...]) -> str:
    return (
        f":root{{--ink:{ink};--soft:{soft};--line:{line};--page:{page};--box:{box};"
        f"{_palette(colours)}}}"
    )


def _palette(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{i}:{colour};" for i, colour in enumerate(colours))


def _classes() -> str:
    return "".join(
        f".c{i}{{stroke:var(--c{i})}}.d{i}{{fill:var(--c{i})}}.k{i}{{background:var(--c{i})}}"
        for i in range(len(LIGHT))
    )


_LIGHT: Final = _theme("#1c1c1e", "#66666b", "#dedee2", "#fff", "#f5f5f7", LIGHT)
_DARK: Final = _theme("#e8e8ea", "#a0a0a6", "#3a3a3e", "#18181a", "#232326", DARK)

STYLE: Final = (
    _LIGHT
    + f"@media(prefers-color-scheme:dark){{{_DARK}}}"
    + f"@media print{{{_LIGHT}}}"  # paper is white, whatever the reader prefers
    + _classes()
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1160px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:24px;margin:0 0 12px;overflow-wrap:anywhere}
h2{font-size:17px;margin:32px 0 8px}
.s{font-size:13px;font-weight:600;padding:2px 10px;border-radius:12px;background:var(--box);
color:var(--c1);vertical-align:middle}
.s.finished,.s.ok{color:var(--c2)}.s.failed{color:var(--c3)}
.w{border-left:4px solid var(--c3);background:var(--box);padding:8px 12px;margin:12px 0;
overflow-wrap:anywhere;white-space:pre-line}
.l{font-size:17px;max-width:70ch;margin:0 0 16px}
.q{color:var(--soft);font-size:13px;max-width:80ch}
.n{display:grid;grid-template-columns:repeat(auto-fill,minmax(112px,1fr));gap:10px}
.n div{background:var(--box);border-radius:8px;padding:8px 12px;color:var(--soft);font-size:13px}
.n b{display:block;color:var(--ink);font-size:19px;font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));
gap:20px;margin-top:28px}
figure{margin:0;min-width:0}
figcaption{display:flex;flex-wrap:wrap;gap:2px 12px;font-size:13px;color:var(--soft)}
figcaption b{color:var(--ink);font-size:15px;flex-basis:100%}
figcaption i{display:inline-block;width:14px;height:3px;margin:0 5px 4px 0}
figure p{font-size:13px;color:var(--soft);margin:2px 0 0}
svg{width:100%;height:auto;display:block}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.f{opacity:.35}
polyline.f{stroke-width:1.2}
.g{stroke:var(--line)}.a{stroke:var(--soft)}
.t{font-size:12px;fill:var(--soft)}
line.e{stroke:var(--c3);stroke-width:1.2;stroke-dasharray:3 3}
text.e{fill:var(--c3);font-size:11px;paint-order:stroke;stroke:var(--page);stroke-width:4px}
.y line.e{opacity:.4}
.b{display:flex;height:18px;background:var(--line);border-radius:4px;overflow:hidden;margin:8px 0;
max-width:640px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.b i{display:block;height:100%}
.i{background:var(--box);border-radius:8px;padding:2px 14px;margin:10px 0;overflow-wrap:anywhere}
.i details{margin:8px 0}
.i summary{color:var(--ink);font-weight:600}
.i:target{outline:2px solid var(--c3)}
pre{white-space:pre-wrap;font-size:12px;max-height:280px;overflow:auto;background:var(--page);
padding:8px;border-radius:6px}
code{font-size:.92em}
.o{overflow-x:auto}
table{border-collapse:collapse;font-size:14px}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);
vertical-align:top}
.m td{white-space:nowrap}
.kv{table-layout:fixed;width:100%}
.kv td{overflow-wrap:anywhere}
.kv th:first-child,.kv td:first-child{width:24%}.kv.three th:nth-child(2){width:36%}
th{color:var(--soft);font-weight:500}
.r{text-align:right;font-variant-numeric:tabular-nums}
details{margin-top:10px}
summary{cursor:pointer;color:var(--soft)}
@media(max-width:640px){
.kv thead{display:none}.kv,.kv tbody,.kv tr,.kv td{display:block;width:auto!important}
.kv tr{padding:6px 0;border-bottom:1px solid var(--line)}
.kv td{padding:0;border:0}
.kv td:first-child,.kv td:nth-child(3){color:var(--soft);font-size:13px}
.m{font-size:13px}
.m th,.m td{padding-right:7px;white-space:normal}
.m td.r,.m td:first-child{white-space:nowrap}
.t{font-size:14px}
}
@media print{
body{font-size:11pt}main{max-width:none;padding:0}
figure,.i,tr{break-inside:avoid}
h2{break-after:avoid}
pre{max-height:none}
svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.charts{grid-template-columns:1fr 1fr}
.i details::details-content{content-visibility:visible;display:block;height:auto}
}
"""
)
