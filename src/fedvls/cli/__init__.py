"""The command line: thin commands over the library. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import importlib
import logging
import signal
import sys
import warnings

import typer

from ..errors import FedvlsError

app = typer.Typer(
    name="fedvls",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning where sites' labels differ: FedVLS, its baselines, and what they do to vacant classes.",
    epilog="Start with: fedvls demo",
    rich_markup_mode="rich",
)

COMMANDS = "demo run compare sweep reproduce archive resume show report plot watch partition ls bench flower"
for _module in COMMANDS.split():
    importlib.import_module(f".{_module}", __name__).add_to(app)


class _OneLine(logging.Handler):
    """What the library has to say, one line each, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = "note" if record.levelno < logging.WARNING else record.levelname.lower()
        print(f"{kind}: {record.getMessage()}", file=sys.stderr)


def _answer_like_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point: a user's mistake is one line and exit code 2; Ctrl-C and SIGTERM are 130."""
    handler, log = _OneLine(), logging.getLogger("fedvls")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    before = signal.signal(signal.SIGTERM, _answer_like_ctrl_c)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            app()
    except FedvlsError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `fedvls show | head`
        sys.exit(141)
    finally:
        signal.signal(signal.SIGTERM, before)
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
