# Prints the steps of the case of all kernels together, by the names of their kernels, and how many units head's plan has.
import json

record = json.load(open("gatekeeper-out/record.json"))["record"]


def print_steps(side, plan):
    groups = [unit["call"]["together"] for unit in plan["units"] if "together" in unit["call"]]
    steps = [group["modules"][step]["name"] for group in groups[:1] for step in group["steps"]]
    print(side, *steps)


print_steps("head", record["plan"])
print_steps("base", record["policy"]["base"]["plan"])
print("units", len(record["plan"]["units"]))
