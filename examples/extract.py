"""A few-shot extraction job: letters to a bicycle shop become records that always fit their schema.

Run it with `make demo`, or: python examples/extract.py [--model NAME_OR_PATH] [--rows N]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Annotated, Literal

import jsonschema
from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

import espalier as esp

MAILS = Path(__file__).with_name("mails.txt")


class Record(BaseModel):
    customer: Annotated[str, Field(min_length=1, max_length=40)]
    kind: Literal["order", "return", "repair", "complaint", "question"]
    urgency: Annotated[int, Field(ge=1, le=5)]
    items: Annotated[list[Annotated[str, Field(min_length=1, max_length=24)]], Field(max_length=4)]
    summary: Annotated[str, Field(min_length=1, max_length=80)]


GUIDE = """You read letters to a bicycle shop and write one record for each letter, as JSON on one line.

customer is the name under the letter. kind is one of order, return, repair, complaint, question: order when the \
customer wants to buy, change or ask for the whereabouts of something bought; return when something goes back; repair \
when something has to be mended or serviced; complaint when the customer is angry about us; question for all the rest. \
urgency goes from 1 (whenever you like) to 5 (somebody may be hurt, or it is needed today). items names the things the \
letter is about, in a few words each, none when it is about no thing. summary says in a few words what the customer \
wants us to do.

"""

SHOTS = (
    (
        "Hello, the bottom bracket of my road bike creaks. I would like to have it looked at some time this month. "
        "Thanks, Paul Meyer",
        Record(customer="Paul Meyer", kind="repair", urgency=2, items=["bottom bracket"],
               summary="Look at a creaking bottom bracket this month"),
    ),
    (
        "I sent back the shoes on Monday, tracking says you have them. When do I get my money? Eva Horvath",
        Record(customer="Eva Horvath", kind="return", urgency=3, items=["shoes"],
               summary="Refund the returned shoes"),
    ),
    (
        "Do you have the panniers in green, and do they fit a Tubus rack? Best, Liam Byrne",
        Record(customer="Liam Byrne", kind="question", urgency=1, items=["panniers", "rack"],
               summary="Say if green panniers exist and fit the rack"),
    ),
    (
        "My brakes failed on a descent after your service. I want the manager to call me today. Ines Duarte",
        Record(customer="Ines Duarte", kind="complaint", urgency=5, items=["brakes"],
               summary="Have the manager call about failed brakes"),
    ),
    (
        "Please send me two more spacers and a headset cap with my order 3310. Regards, Ola Berg",
        Record(customer="Ola Berg", kind="order", urgency=2, items=["spacers", "headset cap"],
               summary="Add two spacers and a headset cap to the order"),
    ),
    (
        "The fork arrived with a scratch. I do not want it replaced, but you should know. Greetings, Marta Silva",
        Record(customer="Marta Silva", kind="complaint", urgency=1, items=["fork"],
               summary="Take note of a scratched fork"),
    ),
)


def prefix() -> str:
    """What all rows share: the guide and the worked examples."""
    return GUIDE + "".join(f"Letter: {letter}\nRecord:\n{record.model_dump_json()}\n\n" for letter, record in SHOTS)


@esp.function
def extract(s: esp.State, mail: str) -> Record:
    s += prefix()
    s += f"Letter: {mail}\nRecord:\n"
    s += esp.gen("record", schema=Record, max_tokens=160, temperature=0)
    return s["record"]


def optimum(prompts: list[list[int]]) -> int:
    """Most prompt tokens that reuse can save: all but the distinct nodes of the prompts' own prefix tree."""
    nodes = {tuple(prompt[: end + 1]) for prompt in prompts for end in range(len(prompt))}
    return sum(map(len, prompts)) - len(nodes)


def show_records(console: Console, results: list[esp.State]) -> None:
    table = Table(title="Records")
    for name in Record.model_fields:
        table.add_column(name, overflow="fold")
    for result in results:
        if result.ok:
            table.add_row(*(", ".join(value) if isinstance(value, list) else str(value)
                            for value in result.result.model_dump().values()))
        else:
            table.add_row(f"failed: {result.error}", *[""] * (len(Record.model_fields) - 1))
    console.print(table)


def count_valid(results: list[esp.State]) -> int:
    """How many texts, as generated, the judge accepts."""
    judge = jsonschema.Draft202012Validator(Record.model_json_schema())
    return sum(result.ok and judge.is_valid(json.loads(result.raw("record"))) for result in results)


def show_figures(console: Console, results: list[esp.State], prompts: list[list[int]], seconds: float) -> None:
    usages = [result.usage for result in results if result.ok]
    total = {name: sum(getattr(usage, name) for usage in usages)
             for name in ("prompt", "cached", "computed", "generated", "forced")}
    best = optimum(prompts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    separate = total["prompt"] + total["generated"]
    console.print(f"prefix tokens reused      {total['cached']} of {total['prompt']}, "
                  f"{total['cached'] / best:.1%} of the optimum ({best})")
    console.print(f"tokens computed           {total['computed']}; separate calls would compute {separate}")
    console.print(f"tokens forced by grammar  {total['forced']} of {total['generated']}")
    console.print(f"tokens per second         {total['generated'] / seconds:.1f} generated, "
                  f"{(total['prompt'] + total['generated']) / seconds:.0f} in all")
    console.print(f"peak memory               {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m", help="a name of `espalier models list`, or a .gguf file")
    parser.add_argument("--rows", type=int, default=None, help="only the first N letters")
    options = parser.parse_args()
    console = Console()
    mails = MAILS.read_text(encoding="utf-8").splitlines()[: options.rows]
    with esp.local(options.model) as model:
        start = time.perf_counter()
        results = extract.run_batch([{"mail": mail} for mail in mails], backend=model, progress=True)
        seconds = time.perf_counter() - start
        prompts = [model.encode(f"{prefix()}Letter: {mail}\nRecord:\n") for mail in mails]
    show_records(console, results)
    valid = count_valid(results)
    console.print(f"{valid} of {len(mails)} valid")
    show_figures(console, results, prompts, seconds)
    raise SystemExit(0 if valid == len(mails) else 1)


if __name__ == "__main__":
    main()
