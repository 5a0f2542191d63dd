"""The life of a task on DBOS: a workflow of steps, behind a thin HTTP front.

    life.py PORT DATABASE rollback|wal

POST /life {"steps": 10, "pauseMs": 0, "log": null}   runs one, and answers with its result
POST /lives (the same)                                starts one, and answers with its id
GET  /lives/ID                                        waits for its result
"""

import asyncio
import pathlib
import sys
import time

import sqlalchemy
import uvloop
from aiohttp import web
from dbos import DBOS, DBOSConfig


@DBOS.step()
def step(number: int, pause_ms: int, log: str | None) -> int:
    note(log, "begins", number)
    if pause_ms:
        time.sleep(pause_ms / 1_000)
    note(log, "ends", number)
    return number


@DBOS.workflow()
def life(steps: int, pause_ms: int, log: str | None) -> int:
    return sum(step(number, pause_ms, log) for number in range(steps))


def note(log: str | None, what: str, number: int) -> None:
    if log is not None:
        with pathlib.Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{DBOS.workflow_id} {what} {number}\n")


async def run(request: web.Request) -> web.Response:
    asked = await request.json()
    return web.json_response({"sum": await asyncio.to_thread(wait, started(asked))})


async def start(request: web.Request) -> web.Response:
    handle = await asyncio.to_thread(started, await request.json())
    return web.json_response({"id": handle.get_workflow_id()})


async def attach(request: web.Request) -> web.Response:
    handle = await asyncio.to_thread(DBOS.retrieve_workflow, request.match_info["id"])
    return web.json_response({"sum": await asyncio.to_thread(wait, handle)})


def started(asked: dict):
    return DBOS.start_workflow(life, asked["steps"], asked["pauseMs"], asked.get("log"))


def wait(handle) -> int:
    # The default looks once a second.
    return handle.get_result(polling_interval_sec=0.005)


def journal_in_wal(connection, _record) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def configured(database: str, journal: str) -> DBOSConfig:
    url = f"sqlite:///{database}"
    config = DBOSConfig(name="life", system_database_url=url, run_admin_server=False, log_level="ERROR")
    if journal == "wal":
        engine = sqlalchemy.create_engine(url, connect_args={"timeout": 30})
        sqlalchemy.event.listen(engine, "connect", journal_in_wal)
        config["system_database_engine"] = engine
    return config


async def main(port: int) -> None:
    application = web.Application()
    application.add_routes([web.post("/life", run), web.post("/lives", start), web.get("/lives/{id}", attach)])
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=600)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    DBOS(config=configured(sys.argv[2], sys.argv[3]))
    DBOS.launch()
    uvloop.run(main(int(sys.argv[1])))
