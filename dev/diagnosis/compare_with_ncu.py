"""Rows of a table: each profiled case with its bound by gatekeeper and by Nsight Compute's rules for the same launch.

Arguments: a record, its diagnosis as JSON, and a directory with the details page of each report as CSV, in the order
in which the profiles were taken."""

import csv
import json
import pathlib
import sys


def name(case):
    return f"{case['kernel']}/{case['variant']}@{case['shape']}"


def profiled(record):
    """The case of each report: one for each profile in the record that came to an end."""
    evidence = record["record"]["evidence"]
    profiles = (piece["profile"] for piece in evidence if "profile" in piece)
    return [name(it["case"]) for it in profiles if "got" in it["facts"]]


def rules(path):
    """The advice of Nsight Compute: rules that expect a gain, the largest first, and what it says of the whole."""
    found = {}
    # Before the head there are lines of ncu's own.
    text = path.read_text()
    for row in csv.DictReader(text[text.index('"ID"') :].splitlines()):
        rule, kind = row.get("Rule Name"), row.get("Rule Type")
        if not rule or (kind != "OPT" and rule != "SOLBottleneck"):
            continue
        text = row.get("Rule Description", "").split(". ")[0]
        gain = float(row.get("Estimated Speedup") or 0)
        found[rule, text] = max(gain, found.get((rule, text), 0))
    # The view of the whole comes first.
    order = sorted(found.items(), key=lambda it: (it[0][0] != "SOLBottleneck", -it[1]))
    return [f"{rule} ({gain:.0f} %): {text}" if gain else f"{rule}: {text}" for (rule, text), gain in order]


def main(record, diagnosis, reports):
    cases = profiled(json.loads(pathlib.Path(record).read_text()))
    pages = sorted(pathlib.Path(reports).glob("*.csv"))
    if not cases or len(cases) != len(pages):
        sys.exit(f"{len(cases)} profiles in the record and {len(pages)} reports: which is whose is not known")
    # The first of several repeats.
    of_case = {}
    for case, page in zip(cases, pages):
        of_case.setdefault(case, page)
    said = {name(it["case"]): it for it in json.loads(pathlib.Path(diagnosis).read_text())["diagnoses"]}
    for case, page in of_case.items():
        after = said[case]["after"]
        uses = sorted(after["uses"].items(), key=lambda it: -it[1])[:4]
        uses = ", ".join(f"{resource} {share:.0%}" for resource, share in uses)
        cells = [f"`{case}`", said[case]["message"], uses, "<br>".join(rules(page)[:4])]
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
