"""The console as an ASGI application: each page of the table for people and for programs, actions, live streams and logins."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ottla.console import openapi, paths
from ottla.console.cluster_session import ClusterSession
from ottla.console.config import ConsoleConfig
from ottla.console.declarations import Action, Done, FileContent, Page, PageRefused
from ottla.console.live import RECONNECT_MS, LiveStreams, ViewedPage, event
from ottla.console.pages import ACTIONS, DOWNLOADS, PAGES
from ottla.console.renderer import TOKEN, PageRenderer, ShownPage
from ottla.console.sessions import COOKIE, BrowserSession, BrowserSessions, printable
from ottla.console.statuses import status_of
from ottla.console.values import arguments, as_json
from ottla.errors import KafkaError

log = logging.getLogger("ottla.console")

MOST_BODY_BYTES = 1 << 20
TIDY_EVERY_S = 30.0
BAD_REQUEST = 400
"""The lowest status of a refusal."""
LOGIN, LOGOUT = "/login", "/logout"
STATIC = Path(__file__).parent / "static"


class Console:
    """All requests of a console."""

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self.sessions = BrowserSessions(config)
        self._renderer = PageRenderer(config, PAGES)
        self.live = LiveStreams(self._regions)

    # ------------------------------------------------------------------ requests

    async def serve(self, request: Request) -> Response:
        """Answer any request about a page or an action."""
        raw_path = request.scope.get("raw_path", request.url.path.encode()).decode("ascii", "replace").partition("?")[0]
        for_program = raw_path == openapi.API or raw_path.startswith(openapi.API + "/")
        session: BrowserSession | None = None
        try:
            session = self._session(request, for_program=for_program)
            answer = await self._answer(request, session, raw_path, for_program=for_program)
        except (PageRefused, KafkaError) as error:
            answer = self._refusal(request, session, _refusal_of(error), for_program=for_program)
        if (
            session is not None
            and session is not self.sessions.of_programs
            and request.cookies.get(COOKIE) != session.key
            and COOKIE not in answer.headers.get("set-cookie", "")
        ):
            self._set_cookie(request, answer, session)
        return answer

    def _session(self, request: Request, *, for_program: bool = False) -> BrowserSession | None:
        known = self.sessions.find(request.cookies.get(COOKIE))
        if known is None and not self._config.needs_login:
            return self.sessions.of_programs if for_program else self.sessions.begin()
        return known

    def _set_cookie(self, request: Request, answer: Response, session: BrowserSession) -> None:
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, session.key, httponly=True, samesite="strict", secure=secure, path="/")

    async def _answer(self, request: Request, session: BrowserSession | None, path: str, *, for_program: bool) -> Response:
        if for_program:
            path = path.removeprefix(openapi.API) or "/"
            if path == "/openapi.json":
                return JSONResponse(openapi.describe(PAGES, ACTIONS))
            path = "/" if path == "/overview" else path
        if path == LOGIN and self._config.needs_login:
            return await self._log_in(request, session, for_program=for_program)
        if session is None or session.cluster is None:
            raise PageRefused(401, "Log in first.")
        if request.method == "POST" and path == LOGOUT:
            await self._changed_body(request, session, for_program=for_program)
            await self.sessions.end(session)
            return JSONResponse({"sentence": "Logged out."}) if for_program else RedirectResponse(LOGIN, 303)
        if request.method == "POST":
            return await self._post(request, session, path, for_program=for_program)
        if (file := await _download(session.cluster, path)) is not None:
            return file
        page, names = _find_page(path)
        given = {**_query(request.url.query), **names}
        if for_program:
            return JSONResponse(as_json(await page.view(session.cluster, **arguments(page.view, given))))
        return await self._page(session, page, path, given)

    async def _page(
        self,
        session: BrowserSession,
        page: Page,
        path: str,
        given: Mapping[str, Any],
        *,
        problem: str = "",
        form: Mapping[str, Any] | None = None,
        status: int = 200,
    ) -> Response:
        assert session.cluster is not None, "only users with a session see pages"
        data = await page.view(session.cluster, **arguments(page.view, given))
        query = {name: value for name, value in given.items() if f"{{{name}}}" not in page.path}
        shown = ShownPage(page, path, query, session.user, session.pop_notice(), problem, form or {})
        html, _ = self._renderer.render(page.template, data, shown)
        return HTMLResponse(html.replace(TOKEN, session.csrf), status)

    async def _post(self, request: Request, session: BrowserSession, path: str, *, for_program: bool) -> Response:
        action, names = _find_action(path)
        if action is None:
            return await self._posted_page(request, session, path, for_program=for_program)
        result = "failed"
        try:
            answer = await self._act(request, session, action, names, for_program=for_program)
            result = "done" if answer.status_code < BAD_REQUEST else f"refused with {answer.status_code}"
            return answer
        except (PageRefused, KafkaError) as error:
            result = f"refused with {_refusal_of(error).status}"
            raise
        finally:  # the form and the sentences can have values of secrets, and the path has names only
            log.info("%s: POST %s: %s", printable(session.user or "without a login"), printable(path), result)

    async def _act(
        self, request: Request, session: BrowserSession, action: Action, names: Mapping[str, str], *, for_program: bool
    ) -> Response:
        """Run an action, and return its response. A person whose action is refused gets the form again."""
        if self._config.read_only:
            raise PageRefused(403, "This console is read-only: it changes nothing.")
        form = await self._changed_body(request, session, for_program=for_program)
        assert session.cluster is not None, "only users with a session come here"
        try:
            done = await action.act(session.cluster, **arguments(action.act, {**form, **names}, is_strict=for_program))
        except (PageRefused, KafkaError) as error:
            if for_program:
                raise
            return await self._form_again(session, action, names, form, _refusal_of(error))
        assert isinstance(done, Done), "actions return Done"
        session.cluster.nudge()
        if for_program:
            return JSONResponse(as_json(done))
        session.notice = done.sentence
        return RedirectResponse(done.path or paths.path_of(action.page, {**form, **names}), 303)

    async def _posted_page(self, request: Request, session: BrowserSession, path: str, *, for_program: bool) -> Response:
        page, names = _find_page(path)
        if not page.takes_post:
            raise PageRefused(405, "This page takes no form.")
        given = {**await self._changed_body(request, session, for_program=for_program), **names}
        assert session.cluster is not None, "only users with a session come here"
        if for_program:
            return JSONResponse(as_json(await page.view(session.cluster, **arguments(page.view, given, is_strict=True))))
        return await self._page(session, page, path, given)

    async def _form_again(
        self, session: BrowserSession, action: Action, names: Mapping[str, str], form: Mapping[str, Any], refused: PageRefused
    ) -> Response:
        """Show a form again, with the error and the values that the user typed."""
        page, path = next(page for page in PAGES if page.path == action.page), paths.path_of(action.page, {**form, **names})
        shown = {name: value for name, value in form.items() if "password" not in name}
        own = paths.match(page.path, path) or {}
        return await self._page(session, page, path, own, problem=str(refused), form=shown, status=refused.status)

    async def _changed_body(self, request: Request, session: BrowserSession, *, for_program: bool) -> dict[str, Any]:
        """Return the body of a request that may change something. Raises `PageRefused` for a forged one."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if for_program:
            _check_origin(request)
            if kind != "application/json":  # a page of another site cannot send this without being asked first
                raise PageRefused(415, "Send JSON: the header Content-Type is application/json.")
            return _json_object(await _body(request))
        if kind != "application/x-www-form-urlencoded":
            raise PageRefused(415, "Send a form as application/x-www-form-urlencoded, or JSON below /api.")
        form = _query((await _body(request)).decode("utf-8", "replace"))
        session.check_token(form.pop("token", None))
        return form

    # ------------------------------------------------------------------ logins

    async def _log_in(self, request: Request, session: BrowserSession | None, *, for_program: bool) -> Response:
        then = _local_path(request.query_params.get("then", "/"))
        if request.method != "POST":
            if for_program:
                raise PageRefused(405, "Send mechanism, name and password as JSON by POST.")
            return self._login_page(request, session or self.sessions.begin(), then)
        waiting = session or BrowserSession(None)
        form = await self._changed_body(request, waiting, for_program=for_program)
        words = [str(form.get(name, "")) for name in ("mechanism", "name", "password")]
        try:
            fresh = await self.sessions.log_in(*words)
        except KafkaError as error:
            refused = _refusal_of(error)
            if for_program:
                raise refused from None
            return self._login_page(request, waiting, then, str(refused), form, refused.status)
        if session is not None:
            await self.sessions.end(session)
        answer: Response = JSONResponse({"sentence": f"Logged in as {fresh.user}."}) if for_program else RedirectResponse(then, 303)
        self._set_cookie(request, answer, fresh)
        return answer

    def _login_page(
        self,
        request: Request,
        session: BrowserSession,
        then: str,
        problem: str = "",
        form: Mapping[str, Any] | None = None,
        status: int = 200,
    ) -> Response:
        given = {name: value for name, value in (form or {}).items() if name != "password"}
        shown = ShownPage(None, LOGIN, {"then": then}, problem=problem, given=given)
        html, _ = self._renderer.render("login.html", None, shown)
        answer = HTMLResponse(html.replace(TOKEN, session.csrf), status)
        self._set_cookie(request, answer, session)
        return answer

    # ------------------------------------------------------------------ live pages

    async def stream(self, request: Request) -> Response:
        """Answer with a stream of a page's regions."""
        try:
            session = self._session(request)
            if session is None or session.cluster is None:
                raise PageRefused(401, "Log in first.")
            path = request.query_params.get("path", "/")
            page, _ = _find_page(path.partition("?")[0])
            if not page.refresh_s:
                raise PageRefused(404, "This page is not live.")
            self.live.check(session)
        except PageRefused as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        viewed = ViewedPage(session.cluster, path)
        answer = StreamingResponse(self._events(session, viewed, page.refresh_s), media_type="text/event-stream")
        if request.cookies.get(COOKIE) != session.key:
            self._set_cookie(request, answer, session)
        return answer

    async def _events(self, session: BrowserSession, viewed: ViewedPage, every_s: float) -> AsyncIterator[str]:
        yield f"retry: {RECONNECT_MS}\n\n"
        async for regions in self.live.stream(session, viewed, every_s):
            session.last_use_s = time.monotonic()
            yield event({name: html.replace(TOKEN, session.csrf) for name, html in regions.items()})

    async def _regions(self, cluster: ClusterSession, path: str) -> dict[str, str]:
        """Return the regions of a page, or after a failure the one with its sentence."""
        own_path, _, query_text = path.partition("?")
        page, names = _find_page(own_path)
        given = {**_query(query_text), **names}
        problem = ""
        try:
            data = await page.view(cluster, **arguments(page.view, given))
        except (PageRefused, KafkaError) as error:
            problem = str(error)
        if problem:
            return self._renderer.render("trouble.html", None, ShownPage(page, own_path, problem=problem))[1]
        query = {name: value for name, value in given.items() if f"{{{name}}}" not in page.path}
        return self._renderer.render(page.template, data, ShownPage(page, own_path, query))[1]

    # ------------------------------------------------------------------ refusals

    def _refusal(self, request: Request, session: BrowserSession | None, refused: PageRefused, *, for_program: bool) -> Response:
        if for_program:
            return JSONResponse({"error": str(refused)}, refused.status)
        if refused.status == 401 and request.method == "GET" and self._config.needs_login:
            target = request.url.path + ("?" + request.url.query if request.url.query else "")
            return RedirectResponse(f"{LOGIN}?then={quote(target, safe='')}", 303)
        shown = ShownPage(None, request.url.path, user=session.user if session else "", problem=str(refused))
        html, _ = self._renderer.render("refused.html", None, shown)
        return HTMLResponse(html.replace(TOKEN, session.csrf if session else ""), refused.status)

    async def tidy(self) -> None:
        """Close what nobody uses, now and then."""
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            await self.sessions.tidy()

    async def close(self) -> None:
        """End all streams, and close all connections."""
        await self.live.close()
        await self.sessions.close()


class _Lines(PathConvertor):
    """A path of any characters. Starlette's own `path` ends at a newline, which a group's name can contain."""

    regex = r"[\s\S]*"


def make_app(config: ConsoleConfig) -> Starlette:
    """Return the console of a cluster."""
    register_url_convertor("lines", _Lines())
    console = Console(config)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.create_task(console.tidy())
        try:
            yield
        finally:
            tidying.cancel()
            await asyncio.gather(tidying, return_exceptions=True)
            await console.close()

    routes = [
        Route("/live", console.stream),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/{path:lines}", console.serve, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={405: _refuse_method})
    app.state.console = console
    return app


async def _refuse_method(request: Request, error: Exception) -> Response:
    refusal = f"The console answers GET and POST, not {request.method}: read /api/openapi.json."
    return JSONResponse({"error": refusal}, 405, getattr(error, "headers", None))


def _find_page(path: str) -> tuple[Page, dict[str, str]]:
    for page in PAGES:
        names = paths.match(page.path, path)
        if names is not None:
            return page, names
    raise PageRefused(404, "There is no such page.")


async def _download(cluster: ClusterSession, path: str) -> Response | None:
    """Return the file at a path, which a browser saves and never shows, or None if there is none."""
    for each in DOWNLOADS:
        names = paths.match(each.path, path)
        if names is not None:
            file = await each.view(cluster, **arguments(each.view, names))
            assert isinstance(file, FileContent), "downloads return FileContent"
            headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
            return Response(file.data, media_type="application/octet-stream", headers=headers)
    return None


def _find_action(path: str) -> tuple[Action | None, dict[str, str]]:
    for action in ACTIONS:
        names = paths.match(action.path, path)
        if names is not None:
            return action, names
    return None, {}


def _refusal_of(error: PageRefused | KafkaError) -> PageRefused:
    """Return an error as a status and a sentence."""
    if isinstance(error, PageRefused):
        return error
    return PageRefused(status_of(error), str(error))


def _query(text: str) -> dict[str, Any]:
    """Return the names and values of a query or a form; a list for a name that occurs several times."""
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=1_000)
    except ValueError:
        raise PageRefused(400, "The form has too many fields.") from None
    for name, value in pairs:
        if name not in found:
            found[name] = value
        else:
            before = found[name]
            found[name] = [*before, value] if isinstance(before, list) else [before, value]
    return found


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise PageRefused(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise PageRefused(400, "The body is not a JSON object.")
    return found


async def _body(request: Request) -> bytes:
    data = bytearray()
    with suppress(ClientDisconnect):
        async for piece in request.stream():
            data += piece
            if len(data) > MOST_BODY_BYTES:
                raise PageRefused(413, f"The request is larger than {MOST_BODY_BYTES >> 20} MiB.")
    return bytes(data)


def _check_origin(request: Request) -> None:
    """Raise `PageRefused` if a browser sends the request for a page of another site. Programs send no origin."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise PageRefused(403, "A page of another site sent this request.")


def _local_path(path: str) -> str:
    """Return a path of this console, so that a login leads to no other site."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
