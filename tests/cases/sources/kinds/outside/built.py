# Prints a fact of the only unit that the last run built, or its plan of units.
import json
import sys

record = json.load(open("gatekeeper-out/record.json"))["record"]
if sys.argv[1] == "units":
    print(json.dumps(record["plan"]["units"]))
else:
    facts = next(piece["build"]["facts"]["got"] for piece in record["evidence"] if "build" in piece)
    print(facts[sys.argv[1]])
