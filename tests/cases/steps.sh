# Functions of the steps `base: $` and `head: $` of the files `expect`.
# shellcheck shell=bash

# edit FILE OLD NEW: replaces a text, which has to be there, everywhere in a file.
edit() {
    FILE=$1 OLD=$2 NEW=$3 perl -e '
        local $/;
        open(my $file, "<", $ENV{FILE}) or die "$ENV{FILE}: $!\n";
        my $text = <$file>;
        index($text, $ENV{OLD}) >= 0 or die "$ENV{FILE} does not contain $ENV{OLD}\n";
        $text =~ s/\Q$ENV{OLD}\E/$ENV{NEW}/g;
        open($file, ">", $ENV{FILE}) or die "$ENV{FILE}: $!\n";
        print $file $text;
    '
}

# Commits everything in the working tree, even if nothing changed.
commit() {
    git add --all
    git commit --quiet --no-verify --allow-empty --message 'a change'
}

# Makes the working tree that of the last commit. Files that git ignores stay.
restore() {
    git reset --quiet --hard
    git clean --quiet --force -d
}

# prepend FILE TEXT: puts lines before the first one of a file.
prepend() {
    printf '%s\n' "$2" | cat - "$1" > "$1.new"
    mv "$1.new" "$1"
}

# program FILE SCRIPT: makes a file a program.
program() {
    printf '#!/bin/sh\n%s\n' "$2" > "$1"
    chmod +x "$1"
}

# Prints a line `KERNEL/VARIANT GATE: OUTCOME CODE` for each verdict of the last run.
verdicts() {
    python3 -c '
import json

for verdict in json.load(open("gatekeeper-out/report.json"))["verdicts"]:
    of = verdict["subject"].get("case") or verdict["subject"].get("unit") or {}
    name = "/".join(of[part] for part in ("kernel", "variant") if part in of)
    print("{} {gate}: {outcome} {code}".format(name, **verdict))
'
}
