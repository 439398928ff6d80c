"""What can be seen of a page: its errors, its requests, whether its text can be read, whether it fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Text that cannot be read: too small (SVG text as it is drawn, after scaling) or of too little contrast (WCAG AA) against what
# lies behind it: the nearest painted ancestor, or for text in pictures the shape under its middle.
UNREADABLE = """
() => {
  const wrong = [];
  const parse = s => { const m = s && s.match(/[\\d.]+/g); return m && m.length >= 3 ? [+m[0], +m[1], +m[2], m.length > 3 ? +m[3] : 1] : null; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat([1]);
  const light = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const ground = e => { const seen = []; for (let n = e; n instanceof Element; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c && c[3] > 0) { seen.push(c); if (c[3] === 1) break; } } let at = matchMedia('(prefers-color-scheme: dark)').matches && !seen.some(c => c[3] === 1) ? [18, 18, 18, 1] : [255, 255, 255, 1]; for (const c of seen.reverse()) at = over(c, at); return at; };
  const under = e => { const b = e.getBoundingClientRect(); for (const n of document.elementsFromPoint(b.x + b.width / 2, b.y + b.height / 2)) { if (n === e || e.contains(n) || n.contains(e) || !n.closest('svg') || /^(text|tspan|svg|g)$/.test(n.tagName)) continue; const s = getComputedStyle(n), f = parse(s.fill); if (f && s.fill !== 'none' && f[3] * s.fillOpacity * s.opacity > .05 && !/^url/.test(s.fill)) return over([f[0], f[1], f[2], f[3] * s.fillOpacity * s.opacity], ground(e)); } return ground(e); };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  for (let t = walk.nextNode(); t; t = walk.nextNode()) {
    const e = t.parentElement; if (!t.data.trim() || done.has(e) || /^(SCRIPT|STYLE|TITLE|title|desc|NOSCRIPT|OPTION)$/.test(e.tagName)) continue;
    done.add(e);
    const s = getComputedStyle(e); if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (e.disabled || e.closest('[disabled],[aria-hidden=true]')) continue;
    let b = e.getBoundingClientRect(); if (b.width === 0 || b.height === 0) continue;
    const drawn = e.closest('svg'); let size = parseFloat(s.fontSize);
    if (drawn) { const m = e.getScreenCTM && e.getScreenCTM(); if (m) size *= Math.hypot(m.a, m.b); e.scrollIntoView({ block: 'center' }); }
    if (size < 10.95) wrong.push(`${size.toFixed(1)} px: ${t.data.trim().slice(0, 60)}`);
    const ink = parse(drawn ? s.fill : s.color); if (!ink) continue;
    const back = drawn ? under(e) : ground(e), real = over([ink[0], ink[1], ink[2], ink[3] * s.opacity], back);
    const big = size >= 24 || (size >= 18.66 && +s.fontWeight >= 700);
    const r = ratio(real, back); if (r < (big ? 3 : 4.5)) wrong.push(`contrast ${r.toFixed(2)}: ${t.data.trim().slice(0, 60)} (${drawn ? s.fill : s.color} on ${back.slice(0, 3).map(Math.round)})`);
  }
  return wrong;
}
"""
OVERFLOWING = """
() => { const wide = innerWidth; if (document.documentElement.scrollWidth <= wide + 1) return [];
  return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > wide + 1 && e.checkVisibility()).slice(0, 8)
    .map(e => `${e.tagName}.${e.getAttribute('class') || ''} reaches ${Math.round(e.getBoundingClientRect().right)} px of ${wide}: ${(e.textContent || '').trim().slice(0, 40)}`); }
"""
# Texts of one picture that lie over each other, by more than a hair (their boxes are taller than their letters).
CROWDED = """
() => { const found = []; for (const p of document.querySelectorAll('svg[role=img]')) { if (!p.checkVisibility()) continue;
  const texts = [...p.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => [t, t.getBoundingClientRect()]);
  const right = p.getBoundingClientRect().right, left = p.getBoundingClientRect().left;
  for (const [t, b] of texts) if (b.right > right + 8 || b.left < left - 8) found.push(`leaves its picture: ${t.textContent}`);
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) { const a = texts[i][1], b = texts[j][1];
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && tall > 4) found.push(`overlap: ${texts[i][0].textContent} | ${texts[j][0].textContent}`); } } return found; }
"""
UNNAMED = "() => [...document.querySelectorAll('svg[role=img], img, canvas')].filter(e => e.checkVisibility() && !(e.getAttribute('aria-label') || e.getAttribute('alt') || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML.slice(0, 80))"


@dataclass(slots=True)
class Sight:
    """A page that was opened, with what it said and asked for on the way."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: Any, address: str, settle: float) -> Sight:
        """Open an address (a file's path will do) and wait until it has loaded, and `settle` seconds more."""
        to = address if "://" in address else f"file://{address}"
        seen = cls(context.new_page(), to)
        seen.page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
        seen.page.on("pageerror", lambda wrong: seen.errors.append(str(wrong)))
        seen.page.on("request", lambda asked: seen.asked.append(asked.url))
        seen.page.goto(to, wait_until="load")
        if settle:
            seen.page.wait_for_timeout(1000 * settle)
        return seen

    @property
    def outside(self) -> list[str]:
        """Requests to anywhere else than where the page came from."""
        home = self.address.split("/", 3)[2]
        here = (f"http://{home}/", f"https://{home}/") if home else ("file://",)
        own = (*here, "data:", "blob:", "about:")
        return [url for url in self.asked if not url.startswith(own)]

    def faults(self) -> list[str]:
        """Everything that a reader would stumble over: errors, outside requests, text that cannot be read, sideways scrolling, pictures without words."""
        result = [f"console: {e}" for e in self.errors] + [f"outside: {u}" for u in self.outside]
        result += self.page.evaluate(UNREADABLE) + [f"overflow: {o}" for o in self.page.evaluate(OVERFLOWING)]
        return result + [f"no words for: {p}" for p in self.page.evaluate(UNNAMED)]

    def crowded(self) -> list[str]:
        """Texts in pictures that lie over each other or leave their picture."""
        return self.page.evaluate(CROWDED)
