//! Reads the launch bounds of an entry (`__launch_bounds__`, `__maxnreg__`) from its PTX, because machine code does not
//! keep them. Pure.

use model::LaunchBounds;

/// Finds an entry's bounds by its symbol. An entry that is not in the PTX has none.
pub fn launch_bounds(ptx: &str, symbol: &str) -> LaunchBounds {
    let mut bounds = LaunchBounds::default();
    for line in header(ptx, symbol) {
        let mut words = line
            .split([' ', '\t', ',', ';'])
            .filter(|word| !word.is_empty());
        let directive = words.next().unwrap_or_default();
        let mut numbers = words.map_while(|word| word.parse::<u32>().ok());
        match directive {
            ".maxntid" | ".reqntid" => {
                bounds.threads = numbers.try_fold(1u32, u32::checked_mul);
            }
            ".minnctapersm" => bounds.blocks = numbers.next(),
            ".maxnreg" => bounds.registers = numbers.next(),
            _ => {}
        }
    }
    bounds
}

/// Returns the lines of an entry from its name to its body.
fn header<'a>(ptx: &'a str, symbol: &str) -> impl Iterator<Item = &'a str> {
    let is_head = move |line: &str| {
        let name = line.split_once(".entry ").map(|(_, rest)| rest.trim());
        let name = name.map(|rest| rest.split('(').next().unwrap_or_default().trim());
        name == Some(symbol)
    };
    let mut lines = ptx.lines();
    let found = lines.any(is_head);
    let lines = lines.take(if found { usize::MAX } else { 0 });
    lines
        .map(str::trim)
        .take_while(|line| !line.starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.visible .entry plain(\n\t.param .u64 plain_param_0\n)\n{\n\tret;\n}\n\
.visible .entry bounded(\n\t.param .u64 bounded_param_0,\n\t.param .u32 bounded_param_1\n)\n\
.maxntid 32, 8, 1\n.minnctapersm 16\n{\n\tret;\n}\n\
.visible .entry few()\n.maxnreg 120\n{\n\t.maxntid 1\n\tret;\n}\n";

    #[test]
    fn each_entry_has_its_own() {
        assert_eq!(launch_bounds(PTX, "plain"), LaunchBounds::default());
        let bounded = LaunchBounds {
            threads: Some(256),
            blocks: Some(16),
            registers: None,
        };
        assert_eq!(launch_bounds(PTX, "bounded"), bounded);
        let few = LaunchBounds {
            registers: Some(120),
            ..LaunchBounds::default()
        };
        assert_eq!(launch_bounds(PTX, "few"), few);
        // A name that is only a part of an entry's name does not match.
        assert_eq!(launch_bounds(PTX, "bound"), LaunchBounds::default());
    }

    #[test]
    fn text_that_is_no_number_is_no_bound() {
        for wrong in [
            ".maxntid 4294967295, 2",
            ".minnctapersm x",
            ".minnctapersm",
            ".maxnreg -1",
        ] {
            let ptx = format!(".entry k()\n{wrong}\n{{\n}}\n");
            assert_eq!(launch_bounds(&ptx, "k"), LaunchBounds::default(), "{wrong}");
        }
    }
}
