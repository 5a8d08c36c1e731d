"""What a study's page adds to the house's style."""

from __future__ import annotations

from typing import Final

from ttf.tools.report.page._style import LIGHT, STYLE


def _hollow() -> str:
    return "".join(
        f".o{i}{{stroke:var(--c{i});fill:var(--page);stroke-width:1.6}}" for i in range(len(LIGHT))
    )


AB_STYLE: Final = (
    STYLE
    + _hollow()
    + """
.key{display:inline-block;width:30px;height:10px;margin-right:5px;vertical-align:0}
.key line{stroke-width:2}
.key path{stroke:var(--page);stroke-width:.8}
figcaption span{overflow-wrap:anywhere}
polyline.f{opacity:.24;stroke-width:1}
polyline:not(.f){stroke-width:2.4}
.band{opacity:.13}
line.n{stroke-width:1.6}
line.p{stroke:var(--soft);opacity:.28}
line.mid{stroke:var(--ink);stroke-width:2.4}
.h{font-weight:600;fill:var(--ink)}
.arm{display:inline-block;min-width:22px;padding:0 5px;border-radius:5px;color:var(--page);
text-align:center;font-size:13px;margin-right:6px;print-color-adjust:exact;
-webkit-print-color-adjust:exact}
.arms td{vertical-align:top}
.arms td:first-child{min-width:150px;overflow-wrap:anywhere;white-space:normal}
small{display:block;color:var(--soft);font-size:12px;white-space:nowrap}
.cmp{width:100%}
.cmp td{vertical-align:middle}
.cmp tbody th{color:var(--ink);font-weight:600;padding-top:18px;overflow-wrap:anywhere}
.cmp tbody th.side{color:var(--soft);font-weight:500;font-size:12px;white-space:nowrap;
padding-right:14px}
.cmp th.side span{float:right}
.cmp td{white-space:nowrap}
.cmp td:first-child{white-space:normal;min-width:140px}.cmp .v{white-space:normal}
.cmp .fig{width:230px}
.cmp svg{width:216px}
.cmp .v{font-weight:600}.cmp .v.open{font-weight:400;color:var(--soft)}
.cmp tr>*:last-child{min-width:232px}
h3{font-size:15px;margin:20px 0 8px}
.mg{fill:var(--soft);opacity:.2}
.zero{stroke:var(--soft)}
.ci{stroke:var(--ink);stroke-width:2}
.eff{fill:var(--ink)}
.eff.open{fill:var(--page);stroke:var(--ink);stroke-width:1.6}
.all{font-size:12px}.all th,.all td{padding-right:10px}
@media(max-width:1100px),print{
.cmp,.arms{font-size:12px}
.cmp th,.cmp td,.arms th,.arms td{padding-right:9px}
.cmp small,.arms small{font-size:11px;white-space:normal}
.cmp td{white-space:normal}.cmp td.r{white-space:nowrap}
.cmp td:first-child{min-width:96px}
.arms td:first-child{min-width:110px}
.cmp .fig{width:150px}.cmp svg{width:140px}
.cmp tr>*:last-child{min-width:0}
}
@media(max-width:640px){
.cmp,.arms{font-size:14px}
.cmp small{font-size:12px}
.arms thead{display:none}
.arms,.arms tbody{display:block}
.arms tr{display:grid;grid-template-columns:1fr 1fr;gap:2px 14px;padding:8px 0;
border-bottom:1px solid var(--line)}
.arms td{border:0;padding:0;text-align:left}
.arms td:first-child{grid-column:1/-1}
.arms td[data-k]:before{content:attr(data-k);display:block;color:var(--soft);font-size:12px}
.cmp thead{display:none}
.cmp,.cmp tbody{display:block}
.cmp tr{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 14px;padding:6px 0;
border-bottom:1px solid var(--line)}
.cmp td,.cmp tbody th{border:0;padding:0;white-space:normal}
.cmp td:first-child{grid-column:1/-1}
.cmp tbody th{grid-column:1/-1;padding-top:14px}
.cmp tbody th.rest{display:none}
.cmp .fig{grid-column:1/-1;width:auto}.cmp svg{width:100%}
.cmp tr>*:last-child{min-width:0}
.cmp td.r{text-align:left}
.cmp td[data-k]:before{content:attr(data-k) " ";color:var(--soft);font-size:12px}
.cmp td.none{display:none}
}
@media print{
details.print::details-content{content-visibility:visible;display:block;height:auto}
.charts{gap:10px}
}
"""
)
