"""Small charts as SVG without scripts and without inline styles, which the console's content security policy forbids."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 160, 36


def spark(values: Sequence[float], label: str, unit: str = "") -> Markup:
    """Return a line of values, oldest first. `label` names it for people who cannot see it."""
    if len(values) < 2:
        return Markup('<span class="muted">not enough samples yet</span>')
    most = max(*values, 1e-9)
    step = WIDTH / (len(values) - 1)
    points = [(number * step, HEIGHT - 2 - value / most * (HEIGHT - 4)) for number, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    text = f"{label}: {values[-1]:,.1f}{unit} now, at most {most:,.1f}{unit}"
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" preserveAspectRatio="none" role="img" '
        'aria-label="{text}">'
        '<title>{text}</title><polygon points="0,{h} {line} {w},{h}"/><polyline points="{line}"/></svg>'
    ).format(w=WIDTH, h=HEIGHT, text=text, line=line)


def bar(part: float, whole: float, label: str) -> Markup:
    """Return a bar of a part of a whole, such as a used disk."""
    share = min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
    text = f"{label}: {share:.0%}"
    return Markup(
        '<svg class="bar{full}" viewBox="0 0 100 8" width="100" height="8" role="img" aria-label="{text}">'
        '<title>{text}</title><rect class="all" width="100" height="8" rx="2"/>'
        '<rect class="part" width="{width}" height="8" rx="2"/></svg>'
    ).format(full=" full" if share > 0.9 else "", text=text, width=f"{share * 100:.1f}")
