//! Changed copies of PTX. A number gives the same copy each time.
//!
//! Most changes are of the kind that a programmer's mistake or a new form of an instruction would be: they still load. One in
//! sixteen is damage anywhere in the text, to see both simulators refuse it with the same words.

#[path = "../../../fuzz/src/mutate.rs"]
mod damage;

pub use damage::Random;

/// Words that stand for one another in a form.
const ALTERNATIVES: &[&[&str]] = &[
    &[".b8", ".b16", ".b32", ".b64", ".b128"],
    &[".u8", ".u16", ".u32", ".u64"],
    &[".s8", ".s16", ".s32", ".s64"],
    &[".f16", ".bf16", ".f32", ".f64"],
    &[".v2", ".v4"],
    &[".cta", ".cluster", ".gpu", ".sys"],
    &[".relaxed", ".acquire", ".release", ".acq_rel", ".volatile"],
    &[".shared", ".shared::cluster", ".global", ".local"],
    &[".shared::cta", ".shared::cluster"],
    &[".lo", ".hi", ".wide"],
    &[".lt", ".le", ".gt", ".ge", ".eq", ".ne"],
    &[".add", ".min", ".max", ".and", ".or", ".exch"],
    &[".x1", ".x2", ".x4"],
    &[".row", ".col"],
    &[".up", ".down", ".bfly", ".idx"],
    &[".ca", ".cg"],
    &[".arrive", ".sync", ".red"],
    &[".noComplete", ""],
    &[".expect_tx", ""],
    &["add.", "sub.", "mul.lo.", "min.", "max."],
    &["and.", "or.", "xor."],
    &["shl.", "shr."],
    &["ld.", "st."],
    &["bar.sync", "bar.warp.sync", "barrier.sync", "bar.arrive"],
    &["bra ", "bra.uni "],
    &["wait_group ", "wait_group.read "],
    &[
        "membar.cta",
        "membar.gl",
        "fence.acq_rel.gpu",
        "fence.sc.cta",
    ],
    &["fence.proxy.async", "fence.mbarrier_init.release.cluster"],
];

/// Instructions that order others: the first choice for removing and moving.
const ORDERING: &[&str] = &[
    "bar",
    "barrier",
    "fence",
    "membar",
    "mbarrier",
    "wait",
    "commit",
    "activemask",
    "griddepcontrol",
    "setmaxnreg",
    "cp.async",
];

/// Instructions that are put in somewhere.
const ADDED: &[&str] = &[
    "bar.sync 0;",
    "bar.sync 1;",
    "bar.warp.sync -1;",
    "fence.acq_rel.gpu;",
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "cp.async.wait_all;",
    "fence.proxy.async;",
    "ret;",
    "exit;",
];

/// Returns a changed copy; the changes are in the kernel of this name, but for damage.
pub fn mutated(text: &str, kernel: &str, random: &mut Random) -> String {
    if random.below(16) == 0 {
        let damaged = damage::mutated(&[text.as_bytes().to_vec()], random);
        return String::from_utf8_lossy(&damaged).into_owned();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let begin = lines
        .iter()
        .position(|line| line.contains(".entry") && line.contains(kernel))
        .unwrap_or(0);
    let end = lines[begin..]
        .iter()
        .position(|line| line.starts_with('}'))
        .map_or(lines.len(), |length| begin + length);
    for _ in 0..=random.below(3) {
        change(&mut lines, begin, end, random);
    }
    lines.join("\n")
}

fn is_instruction(line: &str) -> bool {
    let line = line.trim();
    line.contains(';') && !line.starts_with(['.', '/', '}'])
}

fn is_ordering(line: &str) -> bool {
    ORDERING.iter().any(|word| line.contains(word))
}

fn change(lines: &mut [String], begin: usize, end: usize, random: &mut Random) {
    let all: Vec<usize> = (begin..end.min(lines.len()))
        .filter(|at| is_instruction(&lines[*at]))
        .collect();
    let ordering: Vec<usize> = all
        .iter()
        .copied()
        .filter(|at| is_ordering(&lines[*at]))
        .collect();
    let from = if ordering.is_empty() || random.below(2) == 0 {
        &all
    } else {
        &ordering
    };
    let Some(&at) = from.get(random.below(from.len())) else {
        return;
    };
    match random.below(12) {
        0 => lines[at].clear(),
        1 => {
            // Elsewhere, behind another instruction.
            let to = all[random.below(all.len())];
            let line = std::mem::take(&mut lines[at]);
            lines[to].push(' ');
            lines[to] += &line;
        }
        2 => {
            let number = all.iter().position(|known| *known == at).unwrap_or(0);
            let next = all[(number + 1) % all.len()];
            lines.swap(at, next);
        }
        3 => {
            let line = lines[at].clone();
            lines[at].push(' ');
            lines[at] += &line;
        }
        4 => {
            let added = ADDED[random.below(ADDED.len())];
            lines[at].push(' ');
            lines[at] += added;
        }
        5 => lines[at] = with_predicate(&lines[at], lines, random),
        6 | 7 => lines[at] = with_register(&lines[at], &lines[begin..end], random),
        8 => lines[at] = with_number(&lines[at], random),
        _ => {
            // A form in which something can stand for something else.
            let at = (0..8)
                .map(|_| all[random.below(all.len())])
                .chain([at])
                .find(|at| !alternatives(&lines[*at]).is_empty())
                .unwrap_or(at);
            lines[at] = with_alternative(&lines[at], random);
        }
    }
}

/// Returns the words of a line that have alternatives: where, how long, and which.
fn alternatives(line: &str) -> Vec<(usize, usize, &'static [&'static str])> {
    let mut found = Vec::new();
    for group in ALTERNATIVES {
        for word in group.iter().filter(|word| !word.is_empty()) {
            for (at, _) in line.match_indices(word) {
                let rest = &line[at + word.len()..];
                // `.b3` is no word of `.b32`, nor `.shared` of `.shared::cta`.
                let is_whole = word.ends_with(['.', ' '])
                    || !rest
                        .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':');
                if is_whole {
                    found.push((at, word.len(), *group));
                }
            }
        }
    }
    found
}

fn with_alternative(line: &str, random: &mut Random) -> String {
    let all = alternatives(line);
    match all.get(random.below(all.len())) {
        Some(&(at, length, group)) => {
            let mut line = line.to_owned();
            line.replace_range(at..at + length, group[random.below(group.len())]);
            line
        }
        None => line.to_owned(),
    }
}

/// Returns the registers of a line, with the places where they are.
fn registers(line: &str) -> Vec<(usize, &str)> {
    line.match_indices('%')
        .map(|(at, _)| {
            let rest = &line[at + 1..];
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            (at, &line[at..at + 1 + length])
        })
        .collect()
}

fn class(register: &str) -> &str {
    register.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Puts another register of the same class in the place of one.
fn with_register(line: &str, lines: &[String], random: &mut Random) -> String {
    let own = registers(line);
    let Some(&(at, register)) = own.get(random.below(own.len())) else {
        return line.to_owned();
    };
    for _ in 0..32 {
        let other = registers(&lines[random.below(lines.len())]);
        let Some((_, other)) = other.get(random.below(other.len())) else {
            continue;
        };
        if class(other) == class(register) && *other != register {
            let mut line = line.to_owned();
            line.replace_range(at..at + register.len(), other);
            return line;
        }
    }
    line.to_owned()
}

fn with_predicate(line: &str, lines: &[String], random: &mut Random) -> String {
    let trimmed = line.trim_start();
    if let Some(rest) = trimmed.strip_prefix("@!") {
        return format!("\t@{rest}");
    }
    if let Some(rest) = trimmed.strip_prefix('@') {
        let end = rest.find(char::is_whitespace).unwrap_or(0);
        return match random.below(2) {
            0 => format!("\t@!{rest}"),
            _ => format!("\t{}", &rest[end..]),
        };
    }
    for _ in 0..32 {
        let all = registers(&lines[random.below(lines.len())]);
        let predicate = all.iter().find(|(_, register)| class(register) == "%p");
        if let Some((_, predicate)) = predicate {
            return format!("\t@{predicate} {trimmed}");
        }
    }
    line.to_owned()
}

/// Changes a number that is no part of a name.
fn with_number(line: &str, random: &mut Random) -> String {
    let bytes = line.as_bytes();
    let is_part =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'_' | b'.' | b':');
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !is_part(bytes[at - 1])))
        .collect();
    let Some(&at) = starts.get(random.below(starts.len())) else {
        return line.to_owned();
    };
    let digits = line[at..].bytes().take_while(u8::is_ascii_digit).count();
    let Ok(number) = line[at..at + digits].parse::<u64>() else {
        return line.to_owned();
    };
    let other = match random.below(8) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1) & 0xffff_ffff,
        2 => number.wrapping_mul(2) & 0xffff_ffff,
        3 => number / 2,
        4 => 0,
        5 => number ^ 4,
        6 => number.wrapping_add(16) & 0xffff_ffff,
        _ => 31,
    };
    let mut line = line.to_owned();
    line.replace_range(at..at + digits, &other.to_string());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".visible .entry k(\n\t.param .u64 a\n)\n{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r1, %tid.x;\n\
        \tadd.s32 %r2, %r1, 17;\n\tbar.sync 0;\n\t@%p1 st.shared.u32 [%r2], %r1;\n\tret;\n}\n";

    #[test]
    fn a_number_gives_the_same_copy_each_time() {
        let of = |number| mutated(TEXT, "k", &mut Random::new(number));
        let first: Vec<String> = (0..500).map(of).collect();
        assert!((0..500).all(|number| first[number as usize] == of(number)));
        let unchanged = first.iter().filter(|text| *text == TEXT.trim_end()).count();
        assert!(unchanged < 100, "{unchanged}");
    }

    #[test]
    fn what_is_changed_is_an_instruction_of_the_kernel() {
        let declared = TEXT.find("mov").unwrap();
        for number in 0..500 {
            let is_damaged = Random::new(number).below(16) == 0;
            let text = mutated(TEXT, "k", &mut Random::new(number));
            assert!(is_damaged || text.starts_with(TEXT[..declared].trim_end()));
            assert!(is_damaged || text.ends_with('}'));
        }
    }
}
