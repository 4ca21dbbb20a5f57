//! Lays out the kernels of a compiled file for people, and as JSON. Decides nothing.

use crate::document;
use ::binary::{BinaryKernel, Compiler, Format, Listing, Ptx};
use build::signature::{shortened, whole_name};
use model::Arch;
use model::occupancy::Limiter;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use system::error::Result;
use wording::escape;
use wording::words::plural;

const SCHEMA: &str = "gatekeeper.binary/1";

/// Heads of the columns, right-aligned under each other. A last column has the architecture.
const COLUMNS: [&str; 8] = [
    "registers",
    "stack",
    "shared",
    "constants",
    "code",
    "barriers",
    "threads",
    "warps",
];

/// The kernels by name, then by architecture. Both formats use this order.
struct Sorted<'a> {
    kernels: BTreeMap<&'a str, Vec<&'a BinaryKernel>>,
    /// Kernels that have no machine code, with the architectures of their PTX.
    only_ptx: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Sorted<'a> {
    fn from_listing(listing: &'a Listing) -> Self {
        let mut kernels: BTreeMap<&str, Vec<&BinaryKernel>> = BTreeMap::new();
        for kernel in &listing.kernels {
            kernels.entry(&kernel.name).or_default().push(kernel);
        }
        for each in kernels.values_mut() {
            each.sort_by_key(|kernel| (order(kernel.arch), kernel.member.as_deref()));
        }
        let mut only_ptx: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for ptx in &listing.ptx {
            let names = ptx.kernels.iter().map(String::as_str);
            for name in names.filter(|name| !kernels.contains_key(name)) {
                only_ptx.entry(name).or_default().insert(target(ptx.arch));
            }
        }
        Self { kernels, only_ptx }
    }
}

fn order(arch: Arch) -> (u8, u8, Option<char>) {
    (arch.major, arch.minor, arch.suffix)
}

/// Returns the name of a target of PTX: `compute_90`.
fn target(arch: Arch) -> String {
    arch.to_string().replacen("sm_", "compute_", 1)
}

/// Renders a listing for a terminal. `width` is the length of a line in columns.
pub fn terminal(file: &str, listing: &Listing, width: usize) -> String {
    let sorted = Sorted::from_listing(listing);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{file}: {}", headline(listing, &sorted));
    if !sorted.kernels.is_empty() {
        let widths = widths(
            listing
                .kernels
                .iter()
                .map(cells)
                .collect::<Vec<_>>()
                .as_slice(),
        );
        let _ = writeln!(text, "\n{}  architecture", aligned(&COLUMNS, &widths));
        for (name, kernels) in &sorted.kernels {
            let _ = writeln!(text, "{}", shown(name, width));
            for kernel in kernels {
                let row = cells(kernel);
                let row = aligned(&row.each_ref().map(String::as_str), &widths);
                let member = kernel.member.as_ref();
                let member = member.map(|member| format!("  {}", escape::visible(member)));
                let _ = writeln!(text, "{row}  {}{}", kernel.arch, member.unwrap_or_default());
            }
        }
    }
    if !sorted.only_ptx.is_empty() {
        text.push_str("\nPTX only, compiled by the driver:\n");
        for (name, targets) in &sorted.only_ptx {
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            let _ = writeln!(text, "{}\n  {}", shown(name, width), targets.join(", "));
        }
    }
    if !listing.others.is_empty() {
        text.push_str("\nEntries that gatekeeper does not read:\n");
        for other in &listing.others {
            let (kind, arch, at) = (other.kind, other.arch, other.offset);
            let _ = writeln!(text, "  kind {kind} for {arch}, byte {at}");
        }
    }
    if !listing.compilers.is_empty() {
        text.push_str("\nMade by:\n");
        for (compiler, cubins) in &listing.compilers {
            let _ = writeln!(text, "  {}", made_by(compiler.as_ref(), *cubins));
        }
    }
    escape::lines(&text)
}

fn headline(listing: &Listing, sorted: &Sorted) -> String {
    let kind = match listing.format {
        Format::Cubin => "a cubin",
        Format::Fatbin => "a fat binary",
        Format::Host => "an ELF file of the host",
        Format::Archive => "a static library",
        Format::Mlir => "MLIR bytecode",
        Format::Ptx => "PTX",
        Format::Zip => "a zip archive",
        Format::Directory => "a directory",
    };
    let mut archs: Vec<Arch> = listing.kernels.iter().map(|kernel| kernel.arch).collect();
    archs.sort_by_key(|arch| order(*arch));
    archs.dedup();
    let archs: Vec<String> = archs.iter().map(Arch::to_string).collect();
    let mut text = if archs.is_empty() {
        format!("{kind} without machine code of kernels")
    } else {
        let kernels = plural(sorted.kernels.len(), "kernel");
        format!("{kind} with {kernels} for {}", archs.join(", "))
    };
    let mut targets: Vec<Arch> = listing.ptx.iter().map(|ptx| ptx.arch).collect();
    targets.sort_by_key(|target| order(*target));
    targets.dedup();
    if !targets.is_empty() {
        let targets: Vec<String> = targets.into_iter().map(target).collect();
        let _ = write!(text, ", and PTX for {}", targets.join(", "));
    }
    text
}

fn made_by(compiler: Option<&Compiler>, cubins: usize) -> String {
    let count = plural(cubins, "cubin");
    match compiler {
        Some(Compiler { tool, version }) => format!("{tool} {version} ({count})"),
        None => format!("not stated, as is usual before CUDA 13 ({count})"),
    }
}

fn cells(kernel: &BinaryKernel) -> [String; COLUMNS.len()] {
    let said = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    [
        said(kernel.registers.map(u64::from)),
        said(kernel.stack.map(u64::from)),
        said(kernel.static_shared),
        kernel
            .constants
            .values()
            .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
            .to_string(),
        kernel.code.to_string(),
        said(kernel.barriers.map(u64::from)),
        threads(kernel),
        kernel.occupancy().map_or_else(
            || "-".to_owned(),
            |occupancy| format!("{}/{}", occupancy.warps_per_sm, occupancy.max_warps),
        ),
    ]
}

/// Returns the largest block, `256` or `16x16`, or `=256` for a block of exactly that shape.
fn threads(kernel: &BinaryKernel) -> String {
    let shape = |[x, y, z]: [u32; 3]| match (y, z) {
        (0 | 1, 0 | 1) => x.to_string(),
        (_, 0 | 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    };
    match (kernel.required_threads, kernel.max_threads) {
        (Some(threads), _) => format!("={}", shape(threads)),
        (None, Some(threads)) => shape(threads),
        (None, None) => "-".to_owned(),
    }
}

fn widths(rows: &[[String; COLUMNS.len()]]) -> [usize; COLUMNS.len()] {
    let mut widths = COLUMNS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    widths
}

fn aligned(cells: &[&str; COLUMNS.len()], widths: &[usize; COLUMNS.len()]) -> String {
    format!(
        "  {}",
        cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect::<Vec<_>>()
            .join("  ")
    )
}

/// Returns a symbol that fits `width`. Names of templates can have thousands of characters.
fn shown(symbol: &str, width: usize) -> String {
    shortened(&escape::visible(&whole_name(symbol)), width)
}

/// Returns a listing as JSON.
///
/// # Errors
/// Never fails in practice, because all of it is plain data.
pub fn json(file: &str, listing: &Listing) -> Result<String> {
    #[derive(Serialize)]
    struct ListingDocument<'a> {
        schema: &'static str,
        file: &'a str,
        kernels: Vec<ListingRow<'a>>,
        ptx: Vec<PtxRow<'a>>,
        others: Vec<OtherRow>,
        compilers: Vec<CompilerRow<'a>>,
    }
    #[derive(Serialize)]
    struct ListingRow<'a> {
        symbol: &'a str,
        name: String,
        architecture: String,
        registers: Option<u32>,
        stack: Option<u32>,
        frame: Option<u32>,
        static_shared: Option<u64>,
        reserved_shared: u64,
        constants: &'a BTreeMap<u32, u64>,
        code: u64,
        barriers: Option<u32>,
        linked: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_threads: Option<[u32; 3]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        required_threads: Option<[u32; 3]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        occupancy: Option<OccupancyRow>,
        #[serde(skip_serializing_if = "Option::is_none")]
        member: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct OccupancyRow {
        blocks_per_sm: u32,
        warps_per_sm: u32,
        max_warps: u32,
        limiter: Limiter,
    }
    #[derive(Serialize)]
    struct PtxRow<'a> {
        architecture: String,
        kernels: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        member: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct OtherRow {
        kind: u16,
        architecture: String,
        offset: u64,
    }
    #[derive(Serialize)]
    struct CompilerRow<'a> {
        tool: Option<&'a str>,
        version: Option<&'a str>,
        cubins: usize,
    }
    let sorted = Sorted::from_listing(listing);
    let kernels = sorted.kernels.iter().flat_map(|(symbol, kernels)| {
        let name = whole_name(symbol);
        kernels.iter().map(move |kernel| ListingRow {
            symbol: &kernel.name,
            name: name.clone(),
            architecture: kernel.arch.to_string(),
            registers: kernel.registers,
            stack: kernel.stack,
            frame: kernel.frame,
            static_shared: kernel.static_shared,
            reserved_shared: kernel.reserved_shared,
            constants: &kernel.constants,
            code: kernel.code,
            barriers: kernel.barriers,
            linked: kernel.is_linked,
            max_threads: kernel.max_threads,
            required_threads: kernel.required_threads,
            occupancy: kernel.occupancy().map(|occupancy| OccupancyRow {
                blocks_per_sm: occupancy.blocks_per_sm,
                warps_per_sm: occupancy.warps_per_sm,
                max_warps: occupancy.max_warps,
                limiter: occupancy.limiter,
            }),
            member: kernel.member.as_deref(),
        })
    });
    let ptx = listing.ptx.iter().map(|ptx: &Ptx| PtxRow {
        architecture: target(ptx.arch),
        kernels: &ptx.kernels,
        member: ptx.member.as_deref(),
    });
    let others = listing.others.iter().map(|entry| OtherRow {
        kind: entry.kind,
        architecture: entry.arch.to_string(),
        offset: entry.offset,
    });
    let compilers = listing
        .compilers
        .iter()
        .map(|(toolchain, cubins)| CompilerRow {
            tool: toolchain.as_ref().map(|toolchain| toolchain.tool.as_str()),
            version: toolchain
                .as_ref()
                .map(|toolchain| toolchain.version.as_str()),
            cubins: *cubins,
        });
    let page = ListingDocument {
        schema: SCHEMA,
        file,
        kernels: kernels.collect(),
        ptx: ptx.collect(),
        others: others.collect(),
        compilers: compilers.collect(),
    };
    document::json("the listing", &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_on_its_line() {
        let kernel = BinaryKernel {
            name: "k\n  1  2  sm_90\u{202e}".to_owned(),
            arch: "sm_90".parse().unwrap(),
            registers: Some(8),
            frame: None,
            stack: None,
            static_shared: Some(0),
            reserved_shared: 0,
            constants: BTreeMap::from([(0, u64::MAX), (2, u64::MAX)]),
            code: 256,
            barriers: Some(0),
            max_threads: Some([16, 16, 1]),
            required_threads: None,
            is_linked: true,
            digest: [0; 32],
            opcodes: Vec::new(),
            local_instructions: Some(0),
            member: None,
        };
        let listing = Listing {
            format: Format::Cubin,
            kernels: vec![kernel],
            ptx: Vec::new(),
            others: Vec::new(),
            compilers: BTreeMap::new(),
        };
        let text = terminal("f", &listing, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "f: a cubin with 1 kernel for sm_90");
        assert_eq!(lines[3], "k\\n  1  2  sm_90\\u{202e}");
        assert!(lines[4].ends_with("  16x16  64/64  sm_90"), "{}", lines[4]);
        assert_eq!(lines.len(), 5);
    }
}
