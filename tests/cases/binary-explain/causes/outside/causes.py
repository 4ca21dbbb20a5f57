# Prints a line `KERNEL: CLASS LINES; CLASS LINES.` for each kernel of `--format json` that is explained without a gap.
import json
import sys

for kernel in json.load(sys.stdin)["explanations"]["explained"]["kernels"]:
    assert kernel["gaps"] == [], kernel
    causes = []
    for cause in kernel["causes"]:
        lines = [place["line"] for place in cause["places"]]
        named = [f'{line["file"].rsplit("/", 1)[-1]}:{line["number"]}' for line in lines]
        causes.append(" ".join([cause["class"], *named]))
    print(f'{kernel["unit"]["kernel"]}: {"; ".join(causes)}.')
