"""The routes of the dashboard: what each address answers, and the guard in front of them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedfleet.app.dashboard.auth import Door, answer_headers, cookie, enters, refusal
from fedfleet.app.dashboard.event_stream import Beside, stream
from fedfleet.app.dashboard.form_html import answers, form
from fedfleet.app.dashboard.new_run_form import TOML, Asked, Mistake, asked, filled, placed
from fedfleet.app.dashboard.pages import (
    device_piece,
    empty_page,
    entrance,
    frame,
    live_page,
    run_address,
    run_list,
    run_rows,
    waiting_page,
    waiting_piece,
    whole,
)
from fedfleet.app.dashboard.run_filter import filtered
from fedfleet.app.dashboard.run_processes import Starter, last_words
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, RUNNING, Followed, Glance, Watch, is_run
from fedfleet.app.dashboard.served_runs import server_says, wire_log
from fedfleet.app.dashboard.status_text import repeated
from fedfleet.app.terminal.answers import say
from fedfleet.core.errors import FedFleetError
from fedfleet.core.registry import names

_LONGEST_BODY = 64 * 1024
_LOOK_SECONDS = 1.0
_START_SECONDS = 20.0  # that a new run may take to have its folder before one looks elsewhere
_KINDS = ("tasks", "devices", "states", "partitions", "algorithms", "selectors", "policies")
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_MOST_COMPARED = 64


@dataclass(slots=True)
class Site:
    """What the routes share: what is watched, what was started, who may come in; `closing` ends all open streams."""

    watch: Watch
    starter: Starter
    door: Door
    closing: bool = False
    statics: Mapping[str, bytes] = field(default_factory=lambda: _statics())

    def about(self, run: Glance) -> Beside:
        """What a run printed, and what its server logs and says."""
        says = server_says(run.folder) if run.served and run.status == RUNNING else None
        return Beside((*wire_log(run.folder), *self.starter.said(run.name)), says)


def site_app(site: Site) -> ASGIApp:
    """The application, behind its guard."""

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(site.watch.look)
        task = asyncio.create_task(_looking(site))
        yield
        site.closing = True
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def bound(answer: Callable[[Site, Request], Any]) -> Callable[[Request], Any]:
        async def route(request: Request) -> Response:
            try:
                return await answer(site, request)
            except FedFleetError as wrong:
                return PlainTextResponse(str(wrong), 200 if "hx-request" in request.headers else 400)
            except Exception as wrong:  # a page that fails takes nothing else with it
                say(f"the dashboard could not answer {request.url.path}: {type(wrong).__name__}: {wrong}")
                return PlainTextResponse("The dashboard failed here; its terminal says why.", 500)

        return route

    get: Mapping[str, Any] = {
        "/": _home, "/runs/{name:path}": _run, "/list": _list, "/events": _events, "/starting": _starting, "/device": _device,
        "/report/": _compare, "/report/{name:path}": _report, "/static/{name}": _static, "/enter": _door,
    }  # fmt: skip
    post: Mapping[str, Any] = {
        "/check": _check, "/start": _start, "/stop": _stop, "/resume": _resume, "/report": _make_report, "/enter": _enter,
    }  # fmt: skip
    routes = [Route(path, bound(answer), methods=["GET"]) for path, answer in get.items()]
    routes += [Route(path, bound(answer), methods=["POST"]) for path, answer in post.items()]
    return _guarded(Starlette(routes=routes, lifespan=living), site.door)


def _guarded(inner: ASGIApp, door: Door) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await inner(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        more = [(k.encode(), v.encode()) for k, v in answer_headers(scope["path"], tls=door.tls).items()]

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        no = refusal(door, scope["method"], scope["path"], headers)
        if no is None:
            await inner(scope, receive, guarded_send)
        elif no[0] == 401 and scope["method"] == "GET" and scope["path"] != "/events":
            await RedirectResponse("/enter", 303)(scope, receive, guarded_send)
        else:
            await PlainTextResponse(no[1], no[0])(scope, receive, guarded_send)

    return app


async def _looking(site: Site) -> None:
    while not site.closing:
        await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(site.watch.look)


async def _home(site: Site, request: Request) -> Response:
    runs = site.watch.glances
    current = next((name for name, run in runs.items() if run.status != DAMAGED), next(iter(runs), ""))
    return await _page(site, request, request.query_params.get("again") or current)


async def _run(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in site.watch.glances:
        await asyncio.to_thread(site.watch.look)  # it may have begun this moment
    if name not in site.watch.glances and name in site.starter.started:
        body = whole(_aside(site, request, ""), waiting_page(name))
        return HTMLResponse(frame(site.door, f"FedFleet: {name}", body))
    if name not in site.watch.glances:
        body = whole(_aside(site, request, ""), "<h1>There is no such run</h1>")
        return HTMLResponse(frame(site.door, "FedFleet: no such run", body), 404)
    return await _page(site, request, name)


async def _page(site: Site, request: Request, name: str) -> Response:
    def live(run: Glance, followed: Followed) -> str:
        beside = site.about(run)
        return live_page(run, followed, repeated(run, site.watch.glances.values()), beside.log, beside.says)

    main = await asyncio.to_thread(site.watch.view, name, live)
    body = whole(_aside(site, request, name if main else ""), main or empty_page())
    return HTMLResponse(
        frame(site.door, f"FedFleet: {name}" if main else "FedFleet: runs", body, run=name if main else "")
    )


def _aside(site: Site, request: Request, current: str) -> str:
    words, again = request.query_params.get("filter", ""), site.watch.glances.get(request.query_params.get("again", ""))
    values = filled(again.table, f"{again.name.rpartition('/')[2][:56]}-again") if again else _first_values(site)
    runs, by = site.watch.glances.values(), request.query_params.get("by", "")
    rows = run_rows(filtered(runs, words, by), runs, ticked=(), current=current)
    can = not is_run(site.watch.root)
    return run_list(rows, words, by) + form(values, {kind: names(kind) for kind in _KINDS}, can=can)


def _first_values(site: Site) -> dict[str, str]:
    number = next(n for n in range(1, 10_000) if not (site.watch.root / f"run-{n}").exists())
    return {
        "name": f"run-{number}", "seed": "0", "task.use": "digits_mlp", "world.clients": "100", "world.devices.use": "spread",
        "pace.use": "readiness", "pace.cohort": "10", "stop.rounds": "100",
    }  # fmt: skip


async def _starting(site: Site, request: Request) -> Response:
    """How a run stands that has no folder yet."""
    name = request.query_params.get("run", "")
    if name in site.watch.glances:
        return Response(headers={"HX-Redirect": run_address(name)})
    started = site.starter.started.get(name)
    if started is None or started.going:
        return HTMLResponse(waiting_piece(name, ""))
    return HTMLResponse(waiting_piece(name, last_words(started)))


async def _list(site: Site, request: Request) -> Response:
    asks, runs = request.query_params, site.watch.glances.values()
    found = filtered(runs, asks.get("filter", ""), asks.get("by", ""))
    return HTMLResponse(run_rows(found, runs, ticked=set(asks.getlist("run")), current=asks.get("current", "")))


async def _events(site: Site, request: Request) -> Response:
    said = stream(site.watch, request.query_params.get("run", ""), site.about, lambda: site.closing)
    return StreamingResponse(said, media_type="text/event-stream")


async def _device(site: Site, request: Request) -> Response:
    text = request.query_params.get("client", "").strip()
    if not text.isdecimal() or len(text) > 9:
        return HTMLResponse('<p class="bad">A device is named by its number.</p>')
    name = request.query_params.get("run", "")
    found = await asyncio.to_thread(
        site.watch.view, name, lambda run, f: device_piece(run.name, f.seen, int(text), site.about(run).says)
    )
    return HTMLResponse(found or '<p class="bad">There is no such run.</p>')


async def _report(site: Site, request: Request) -> Response:
    run = site.watch.glances.get(request.path_params["name"].removesuffix("/report.html"))
    page = run.folder / "report.html" if run else None
    if page is None or not page.is_file():
        return PlainTextResponse("There is no such report; make it with the button of the run.", 404)
    return HTMLResponse(await asyncio.to_thread(page.read_bytes))


async def _compare(site: Site, request: Request) -> Response:
    ticked = [
        site.watch.glances[name]
        for name in dict.fromkeys(request.query_params.getlist("run"))
        if name in site.watch.glances
    ]
    if not 2 <= len(ticked) <= _MOST_COMPARED:
        return PlainTextResponse(f"Tick two runs or more, {_MOST_COMPARED} at most, and compare them then.", 400)
    return HTMLResponse(await asyncio.to_thread(_compared, site.watch.root, ticked))


def _compared(root: Path, runs: Sequence[Glance]) -> str:
    """The page of a comparison; its links lead to reports as they lie under the folder of the runs."""
    from fedfleet.app.pages.comparison_page import comparison_page
    from fedfleet.app.studies.compare.comparison import compare

    return comparison_page(compare([run.folder for run in runs]), root / "comparison.html")


async def _static(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in site.statics:
        return PlainTextResponse("There is no such file.", 404)
    return Response(site.statics[name], media_type=_TYPES.get(Path(name).suffix, "text/plain"))


async def _check(site: Site, request: Request) -> Response:
    found = await asyncio.to_thread(asked, await _form(request), site.watch.root, Path.cwd())
    return HTMLResponse(answers(found))


async def _start(site: Site, request: Request) -> Response:
    values = await _form(request)
    found = await asyncio.to_thread(asked, values, site.watch.root, Path.cwd())
    if found.spec is None:
        return HTMLResponse(answers(found))
    try:
        started = site.starter.start(found.values["name"], found.spec.toml())
        said = await asyncio.to_thread(site.starter.settled, started, _START_SECONDS)
    except FedFleetError as wrong:
        return HTMLResponse(answers(Asked(found.values, None, {TOML: Mistake(str(wrong))})))
    if said:
        at, mistake = placed(said, found.values)
        return HTMLResponse(answers(Asked(found.values, None, {at: mistake})))
    return Response(headers={"HX-Redirect": run_address(started.name)})


async def _stop(site: Site, request: Request) -> Response:
    run = await _named(site, request)
    site.starter.stop(run)
    return PlainTextResponse("Asked to stop; it ends at its next safe point and can be resumed.")


async def _resume(site: Site, request: Request) -> Response:
    run = await _named(site, request)
    started = site.starter.resume(run)
    said = "" if started.going else await asyncio.to_thread(site.starter.settled, started, 1.0)
    return PlainTextResponse(said or "Going on from its last checkpoint.")


async def _make_report(site: Site, request: Request) -> Response:
    from fedfleet.app.pages.report_page import report_run

    run = await _named(site, request)
    if run.status != FINISHED or not (run.folder / "report.html").is_file():
        await asyncio.to_thread(report_run, run.folder)
    return Response(headers={"HX-Redirect": f"/report/{run_address(run.name).removeprefix('/runs/')}/report.html"})


async def _door(site: Site, request: Request) -> Response:
    del request
    return HTMLResponse(entrance(wrong=False)) if site.door.reading else RedirectResponse("/", 303)


async def _enter(site: Site, request: Request) -> Response:
    if not enters(site.door, (await _form(request)).get("token", "")):
        await asyncio.sleep(0.5)  # whoever guesses shall have time
        return HTMLResponse(entrance(wrong=True), 403)
    return RedirectResponse("/", 303, headers={"set-cookie": cookie(site.door)})


async def _named(site: Site, request: Request) -> Glance:
    name = (await _form(request)).get("run", "")
    await asyncio.to_thread(site.watch.look)
    run = site.watch.glances.get(name)
    if run is None:
        raise FedFleetError("There is no such run any more.")
    return run


async def _form(request: Request) -> dict[str, str]:
    """The fields of a posted form; what is too long is not read to its end."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_BODY:
            raise FedFleetError(f"The request is longer than {_LONGEST_BODY:,} bytes.")
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=200)
    except ValueError:
        raise FedFleetError("The request is not a form.") from None
    return {key: values[-1] for key, values in found.items()}


def _statics() -> Mapping[str, bytes]:
    from fedfleet.app.pages.html import tokens

    folder = files("fedfleet.app.dashboard").joinpath("static")
    own = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    return {**own, "tokens.css": tokens().encode()}
