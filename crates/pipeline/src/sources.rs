//! Quotes the source lines that findings and counters name. An acceptance names the line of a finding by its text,
//! because line numbers change with every edit, and the judge reads no files.

use build::in_toolkit;
use model::{Evidence, FaultSite, Place, Seen};
use std::collections::HashMap;
use std::path::Path;
use system::files;

/// The greatest size of a source in bytes. A `#line` can name anything that this machine has.
const MOST_BYTES: u64 = 16 << 20;

/// The sources of a run, each read once.
pub struct Sources<'a> {
    /// The directory that holds gates.yaml. Relative paths of sources start there.
    root: &'a Path,
    /// The directory of the toolkit's headers.
    toolkit: &'a Path,
    read: HashMap<String, Option<Vec<String>>>,
}

impl<'a> Sources<'a> {
    pub fn new(root: &'a Path, toolkit: &'a Path) -> Self {
        Self {
            root,
            toolkit,
            read: HashMap::new(),
        }
    }

    /// Adds the text of each line that a finding, a fault or a counter names.
    pub fn quote(&mut self, evidence: &mut [Evidence]) {
        for piece in evidence {
            match piece {
                Evidence::Simulation {
                    facts: Seen::Got(facts),
                    ..
                } => {
                    facts
                        .findings
                        .iter_mut()
                        .flat_map(|finding| &mut finding.places)
                        .for_each(|place| self.quote_place(place));
                    for counted in facts.lines.values_mut().flatten() {
                        let line = counted.line();
                        counted.text = line.and_then(|(file, number)| self.line(file, number));
                    }
                }
                Evidence::Simulation {
                    facts: Seen::Fault(fault),
                    ..
                }
                | Evidence::Check {
                    facts: Seen::Fault(fault),
                    ..
                } => {
                    if let Some(FaultSite::Launch(site)) = fault.site.as_deref_mut() {
                        self.quote_place(&mut site.place);
                    }
                }
                _ => {}
            }
        }
    }

    fn quote_place(&mut self, place: &mut Place) {
        for line in place.line.iter_mut().chain(&mut place.calls) {
            line.text = self.line(&line.file, line.number);
        }
    }

    /// Returns the text of a line, without the space around it.
    pub fn line(&mut self, file: &str, number: u32) -> Option<String> {
        let (root, toolkit) = (self.root, self.toolkit);
        let lines = self.read.entry(file.to_owned()).or_insert_with(|| {
            let path = match in_toolkit(file) {
                Some(header) => toolkit.join(header),
                None => root.join(file),
            };
            read_lines(&path)
        });
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Some(lines.as_ref()?.get(index)?.trim().to_owned())
    }
}

fn read_lines(path: &Path) -> Option<Vec<String>> {
    let text = files::read(path, MOST_BYTES).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some(text.lines().map(str::to_owned).collect())
}
