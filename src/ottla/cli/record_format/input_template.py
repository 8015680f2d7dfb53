"""Input templates, parsed into steps: one for each literal text and token. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from ottla.cli.record_format import input_steps as steps
from ottla.cli.record_format.forms import NumberReader, number_form, text_form, time_layout
from ottla.cli.record_format.tokens import OF_HEADERS, BadTemplate, TemplateToken, TokenKind, pieces_of


def input_template(text: str) -> list[steps.InputStep]:
    """Return the steps that read input by the template `text`. Raises `BadTemplate`."""
    found = _steps(text)
    if not any(isinstance(step, steps.TextStep) and step.name in ("key", "value") for step in found):
        raise BadTemplate("it has neither %v nor %k: add %v, the value")
    if isinstance(last := found[-1], steps.LiteralStep):
        found[-1] = replace(last, is_last=True)
    return found


def _steps(text: str, *, of_header: bool = False) -> list[steps.InputStep]:
    found: list[steps.InputStep] = []
    pieces = pieces_of(text)
    for at, piece in enumerate(pieces):
        if isinstance(piece, bytes):
            found.append(steps.LiteralStep(piece))
            continue
        if of_header and piece.letter not in OF_HEADERS:
            raise BadTemplate(f"%{piece.letter} does not belong into %h{{…}}: use %k, %v, %K and %V there")
        has_topic_later = any(isinstance(later, TemplateToken) and later.letter == "t" for later in pieces[at:])
        found.append(_step(piece, has_topic_later=has_topic_later))
    return _checked(found)


def _step(piece: TemplateToken, *, has_topic_later: bool) -> steps.InputStep:
    letter, form = piece
    kind, meaning, _, name, *_ = piece.token
    if name is None:
        raise BadTemplate(f"%{letter} ({meaning}) can be printed, not read: leave it out")
    if kind is TokenKind.HEADERS:
        return steps.KcatHeadersStep() if form is None else steps.HeadersStep(_steps(form, of_header=True))
    if kind is TokenKind.TEXT:
        found = text_form(form)
        if not found.can_read:
            raise BadTemplate(f"%{letter}{{{form}}} can be printed, not read: use another form")
        return steps.TextStep(name, found)
    if letter == "d" and (layout := time_layout(form)) is not None:
        return steps.TimeStep(layout)
    if letter == "T" and form is None and not has_topic_later:
        return steps.NumberStep("timestamp_ms", _reader(letter, form))
    if kind is TokenKind.SIZE:
        is_constant = form is not None and form.isdecimal()
        return steps.SizeStep(name, steps.constant(int(form or 0)) if is_constant else _reader(letter, form))
    return steps.NumberStep(name, _reader(letter, form))


def _reader(letter: str, form: str | None) -> NumberReader:
    read = number_form("big32" if letter == "R" else form).read
    if read is None:
        raise BadTemplate(f"%{letter}{{{form}}} can be printed, not read: use another form")
    return read


def _checked(found: list[steps.InputStep]) -> list[steps.InputStep]:
    """Return the steps, each with the text that ends it. Raises `BadTemplate` for a text without an end, and contradictions."""
    checked: list[steps.InputStep] = []
    sized: set[str] = set()
    seen: set[str] = set()
    for step, following in zip_longest(found, found[1:]):
        name = getattr(step, "name", "")
        if name in seen:
            raise BadTemplate(f"the {name.removesuffix('_ms')} comes twice, or before its size: correct the order")
        if isinstance(step, steps.SizeStep):
            sized.add(name)
        elif name:
            seen.add(name)
        if isinstance(step, steps.HeadersStep) and "count" not in seen:
            raise BadTemplate("%h{…} needs the number of headers before it: write %H")
        checked.append(_with_end(step, following, name in sized) if isinstance(step, steps.DelimitedStep) else step)
    return checked


def _with_end(step: steps.DelimitedStep, following: steps.InputStep | None, is_sized: bool) -> steps.DelimitedStep:
    """Return a step with the text that follows it, and with whether its size is read before.

    Raises `BadTemplate` if the step has neither.
    """
    end = following.text if isinstance(following, steps.LiteralStep) else None
    if isinstance(step, steps.TextStep):
        step = replace(step, is_sized=is_sized)
    if step.needs_end and following is not None and end is None:
        raise BadTemplate(
            f"nothing divides the {step.name} from what follows: write a text between them, or the size before the {step.name}"
        )
    return replace(step, end=end)
