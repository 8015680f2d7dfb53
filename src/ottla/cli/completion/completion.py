"""`ottla completion`: prints the script by which a shell completes commands, options and names of the running cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command.parser import COMPLETE, Example

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser

DESCRIPTION = """Print a script that completes commands, options, topics, groups, partitions, brokers, resources, settings and
profiles. Names come from the cluster that the line names, or from the profile in use. They are left out if it does not answer
within 2 s."""
SCRIPTS = {
    "bash": f"""_ottla() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" line="${{COMP_LINE:0:COMP_POINT}}" prefix candidate
    COMPREPLY=()
    prefix="${{line##*[[:space:]]}}"
    while IFS= read -r candidate; do  # not as words, which bash would expand: broker/*
        candidate="${{candidate%%$'\\t'*}}"
        COMPREPLY+=("${{candidate:$((${{#prefix}} - ${{#word}}))}}")
        [[ $candidate != *[=/[] ]] || compopt -o nospace 2>/dev/null
    done < <(ottla {COMPLETE} line "$line" 2>/dev/null)
}}
complete -o default -F _ottla ottla
""",
    "zsh": f"""#compdef ottla
_ottla() {{
    local -a names=() texts=() space=()
    local line
    for line in "${{(@f)$(ottla {COMPLETE} words "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}"; do
        [[ -n $line ]] || continue
        names+=("${{line%%$'\\t'*}}")
        [[ ${{names[-1]}} != *[=/[] ]] || space=(-S '')
        texts+=("${{line/$'\\t'/  }}")
    done
    if (( $#names )); then compadd "${{(@)space}}" -l -d texts -- "${{names[@]}}"; else _files; fi
}}
compdef _ottla ottla
""",
    "fish": f"""complete -c ottla -e
complete -c ottla -a '(ottla {COMPLETE} words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def build(parser: Parser) -> None:
    parser.description = DESCRIPTION
    parser.examples = (
        Example("completion bash", 'For ~/.bashrc: eval "$(ottla completion bash)"'),
        Example("completion zsh", 'For ~/.zshrc, after compinit: eval "$(ottla completion zsh)"'),
        Example("completion fish", "For ~/.config/fish/completions/ottla.fish, by redirection."),
    )
    parser.add_argument("shell", metavar="SHELL", choices=SCRIPTS, help=", ".join(SCRIPTS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print(SCRIPTS[options.shell], end="")
    return 0
