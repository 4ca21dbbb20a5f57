//! Lists the kernels of a source with their parameters. It reads what the compiler made of the source, so macros,
//! templates and headers are left to the compiler. A template contributes the instances that the source asks for.

pub use super::bounds::launch_bounds;
use super::command::{escape, is_marker};
use super::compile::{self, Listed, ListedCode, Workshop};
use super::cut::PtxModule;
use super::entry::{Named, resolve};
use super::files::lexical;
use super::signature::{Slot, SlotKind, parameters, qualified, scalar_named, slots};
use crate::toolchain::Toolchain;
use gimli::{
    AttributeValue, DwAt, EndianSlice, LittleEndian, Operation, UnitOffset, constants as dw,
};
use model::{Arch, ElemType, Fault, FaultKind, Number, ScalarType};
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;

/// The inputs for compiling a source, in the form of gates.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compilation {
    pub include_dirs: Vec<String>,
    /// Names and values of the macros.
    pub define: Vec<(String, String)>,
    pub flags: Vec<String>,
}

/// The kernels that a source contains, and their PTX.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub kernels: Vec<ListedKernel>,
    /// The code that the simulator can run.
    pub ptx: String,
    /// The files that the compilation read.
    pub included: Vec<String>,
}

impl Inventory {
    /// Returns file and line of the first code of each entry, as its line table names them. An entry of a header has the
    /// same ones in each source that includes it.
    pub fn first_lines(&self) -> HashMap<&str, (&str, &str)> {
        let files: HashMap<&str, &str> = self
            .ptx
            .lines()
            .filter_map(|line| {
                line.trim_start()
                    .strip_prefix(".file")?
                    .trim()
                    .split_once([' ', '\t'])
            })
            .collect();
        entries(&self.ptx)
            .into_iter()
            .filter_map(|(symbol, own)| {
                let mut lines = own.lines();
                let place = lines.find_map(|line| line.trim_start().strip_prefix(".loc"))?;
                let mut numbers = place.split_whitespace();
                let file = files.get(numbers.next()?)?.trim();
                Some((symbol, (file, numbers.next()?)))
            })
            .collect()
    }
}

/// Returns the text of each entry of PTX, by its symbol.
pub fn entries(ptx: &str) -> HashMap<&str, &str> {
    ptx.match_indices(".entry ")
        .filter_map(|(at, directive)| {
            let rest = ptx.get(at..)?;
            let own = rest.split_once("\n}").map_or(rest, |(own, _)| own);
            let (symbol, _) = own.get(directive.len()..)?.split_once('(')?;
            Some((symbol.trim(), own))
        })
        .collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedKernel {
    pub symbol: String,
    /// The name that gates.yaml can use for the kernel.
    pub name: String,
    pub parameters: Vec<ListedParameter>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedParameter {
    /// `None` if the compiler kept none.
    pub name: Option<String>,
    pub kind: ParameterKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ParameterKind {
    Pointer(Pointee),
    Scalar(ScalarType),
    /// A struct that is passed by value, with its members.
    Struct(Vec<Member>),
    /// A parameter that is not plain data, or not known: its type in C++ or its size, and the reason.
    Other(String),
}

/// A part of a struct: a scalar, a pointer, or room between two. Structs within it are their members.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    Pointer(String, Pointee),
    Scalar(String, ScalarType),
    /// An element of an array, with the type of the scalar.
    Element(String, ScalarType),
    Pad(usize),
}

impl Member {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Pointer(..) => POINTER,
            Self::Scalar(_, scalar) | Self::Element(_, scalar) => scalar.size(),
            Self::Pad(bytes) => *bytes,
        }
    }
}

const POINTER: usize = 8;

/// The thing that a pointer leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointee {
    pub is_const: bool,
    pub elem: ElemType,
    /// The number of elements in each: 4 for a `float4`, or the bytes of a struct.
    pub count: usize,
    /// True if `elem` is the type in the source, and false if it stands for bytes.
    pub is_known: bool,
}

impl Compilation {
    fn arguments(&self) -> Vec<String> {
        let Self {
            include_dirs,
            define,
            flags,
        } = self;
        let define = define
            .iter()
            .map(|(name, value)| format!("-D{name}={}", escape(value)));
        let dirs = include_dirs.iter().map(|dir| format!("-I{}", escape(dir)));
        define.chain(dirs).chain(flags.iter().cloned()).collect()
    }
}

/// A source, and everything that decides how it is compiled.
#[derive(Clone, Copy)]
pub struct Listing<'a> {
    pub root: &'a Path,
    pub toolchain: &'a Toolchain,
    pub scratch: &'a Path,
    pub source: &'a str,
    pub compilation: &'a Compilation,
    pub arch: Arch,
}

impl Listing<'_> {
    /// Compiles the source with text behind it. `debug` is also the name of the directory.
    fn compile(&self, debug: &str, behind: &str) -> Result<std::result::Result<Listed, Fault>> {
        let dir = self.scratch.join(debug.trim_start_matches('-'));
        std::fs::create_dir_all(&dir).map_err(|error| Error::at_path(&dir, error))?;
        let shop = Workshop {
            root: self.root,
            toolchain: self.toolchain,
            scratch: &dir,
            outside: &[],
            hidden: None,
            deadline: compile::DEADLINE,
        };
        let virtual_arch = self.arch.to_string().replacen("sm_", "compute_", 1);
        let mut args = vec![
            "-gencode".to_owned(),
            format!("arch={virtual_arch},code={}", self.arch),
            debug.to_owned(),
            "-w".to_owned(),
        ];
        args.extend(self.compilation.arguments());
        compile::compile_to_list(shop, self.source, behind, &args)
    }
}

/// Compiles a source as a run does, and at the same time without optimisation, which keeps the names of parameters.
///
/// # Errors
/// Returns an error if the machine failed. The inner error is the source's.
pub fn list(listing: Listing) -> Result<std::result::Result<Inventory, Fault>> {
    let toolkit = &listing.toolchain.include;
    let toolkit = std::fs::canonicalize(toolkit).unwrap_or_else(|_| toolkit.clone());
    let (listed, debugged) = rayon::join(
        || listing.compile("-lineinfo", ""),
        || listing.compile("-G", ""),
    );
    let listed = match listed? {
        Ok(listed) => listed,
        Err(fault) => return Ok(Err(fault)),
    };
    let described = match debugged?.map(|debugged| debugged.code) {
        Ok(ListedCode::Cubin(cubin)) => describe(&cubin).unwrap_or_default(),
        Ok(ListedCode::Ptx(_)) | Err(_) => HashMap::new(),
    };
    Ok(Ok(inventory(listed, &described, &toolkit)))
}

/// The template with which the compiler is asked. It is never defined.
const ASKED: &str = "gatekeeper_asks";

/// Asks the compiler which types these names denote in a source, such as `float` for `traits<32>::input_t`. `number<N>`
/// in a name stands for an expression. The compiler makes no code: it refuses an object of an incomplete type, and
/// names the type as it is after all substitution.
///
/// # Errors
/// Returns an error if the machine failed.
pub fn name_types(listing: Listing, names: &[String]) -> Result<HashMap<String, String>> {
    let mut behind = format!(
        "template <typename> struct {ASKED};\nnamespace gatekeeper {{ template <long long> struct number; }}\n"
    );
    for (line, name) in (1..).zip(names) {
        let name = name.replace("number<", "gatekeeper::number<");
        behind.push_str(&format!(
            "#line {line} \"{ASKED}\"\n{ASKED}<{name}> {ASKED}_{line};\n"
        ));
    }
    let Err(refused) = listing.compile("-Xcudafe=--error_limit=1000000", &behind)? else {
        return Ok(HashMap::new());
    };
    let answer = |line: &str| {
        let (line, said) = line
            .strip_prefix(ASKED)?
            .strip_prefix('(')?
            .split_once(')')?;
        let name = names.get(line.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (_, answer) = said.rsplit_once(&format!("\"{ASKED}<"))?;
        let (answer, _) = answer.split_once("\"")?;
        let answer = answer.strip_suffix('>')?.replace("gatekeeper::", "");
        Some((name.clone(), answer.trim().to_owned()))
    };
    Ok(refused.message.lines().filter_map(answer).collect())
}

/// The most bytes of a file of PTX. No compiler makes a larger one.
const MOST_PTX: u64 = 256 << 20;

/// Lists the kernels of PTX that somebody else compiled, from the PTX itself. Nothing is compiled.
///
/// # Errors
/// Returns an error if the file cannot be read. The inner error is what is wrong with it.
pub fn list_ptx(root: &Path, source: &str) -> Result<std::result::Result<Inventory, Fault>> {
    let path = root.join(source);
    let ptx = files::read_text(&path, MOST_PTX).map_err(|error| Error::at_path(&path, error))?;
    let symbols: Vec<String> = match PtxModule::parse(&ptx) {
        Some(module) => module
            .entries()
            .iter()
            .map(|&entry| entry.to_owned())
            .collect(),
        None => {
            let message = format!("{source}: error: this PTX cannot be read");
            return Ok(Err(Fault::new(FaultKind::Compile, message)));
        }
    };
    let named: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let kernels = named
        .iter()
        .zip(names(&named))
        .map(|(&symbol, name)| ListedKernel {
            symbol: symbol.to_owned(),
            name,
            parameters: by_signature(symbol, &ptx),
        });
    Ok(Ok(Inventory {
        kernels: kernels.collect(),
        included: vec![source.to_owned()],
        ptx: ptx.clone(),
    }))
}

fn inventory(listed: Listed, described: &HashMap<String, Described>, toolkit: &Path) -> Inventory {
    let ListedCode::Ptx(ptx) = listed.code else {
        return Inventory::default();
    };
    let entries = PtxModule::parse(&ptx).map(|module| module.entries());
    let symbols = entries.unwrap_or_default().into_iter();
    let symbols: Vec<&str> = symbols.filter(|symbol| !is_marker(symbol)).collect();
    let mut kernels: Vec<ListedKernel> = symbols
        .iter()
        .zip(names(&symbols))
        .filter(|(symbol, _)| {
            let described = described.get(**symbol);
            described.is_none_or(|line| !line.is_of(toolkit))
        })
        .map(|(&symbol, name)| ListedKernel {
            symbol: symbol.to_owned(),
            name,
            parameters: match described.get(symbol) {
                Some(described) => described.parameters.clone(),
                None => by_signature(symbol, &ptx),
            },
        })
        .collect();
    // Kernels are in the order of the source, and instances of one template in the order of their names.
    kernels.sort_by_cached_key(|kernel| {
        let described = described.get(&kernel.symbol);
        let place = described.map(|line| (line.file.clone(), line.line));
        (place, kernel.symbol.clone())
    });
    Inventory {
        kernels,
        ptx,
        included: listed.included,
    }
}

/// Returns the shortest name for each of these entries that means no other.
fn names(symbols: &[&str]) -> Vec<String> {
    let all: Vec<String> = symbols.iter().map(|symbol| qualified(symbol)).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in &all {
        *counts.entry(name).or_default() += 1;
    }
    symbols
        .iter()
        .zip(&all)
        .map(|(&symbol, qualified)| {
            // An entity without a name in the source is found by the rest of its name.
            let plain = qualified.replace("(anonymous namespace)::", "");
            // Looking up a name reads all symbols, and templates have hundreds of instances.
            let is_only = plain == *qualified && counts.get(plain.as_str()) == Some(&1);
            if is_only || resolve(Named::Entry, &plain, symbols) == Ok(symbol) {
                plain
            } else {
                symbol.to_owned()
            }
        })
        .collect()
}

/// Returns the parameters of a kernel without debugging information, from the mangled name and the PTX.
fn by_signature(symbol: &str, ptx: &str) -> Vec<ListedParameter> {
    let slots = slots(ptx, symbol).unwrap_or_default();
    let texts = parameters(symbol);
    slots
        .iter()
        .enumerate()
        .map(|(at, slot)| ListedParameter {
            name: None,
            kind: match texts.as_ref().and_then(|texts| texts.get(at)) {
                Some(text) => by_text(text, *slot),
                None => ParameterKind::Other(format!("{} bytes", slot.bytes)),
            },
        })
        .collect()
}

fn by_text(text: &str, slot: Slot) -> ParameterKind {
    if let Some(pointee) = text.strip_suffix('*') {
        let pointee = pointee.trim_end();
        let is_const = pointee.ends_with(" const");
        let base = pointee.strip_suffix(" const").unwrap_or(pointee);
        let known = scalar_named(base).and_then(element);
        return ParameterKind::Pointer(Pointee {
            is_const,
            elem: known.unwrap_or(ElemType::U8),
            count: 1,
            is_known: known.is_some(),
        });
    }
    match (scalar_named(text), slot.kind) {
        (Some(scalar), _) => ParameterKind::Scalar(scalar),
        // The parameter is an enum.
        (None, SlotKind::Word) if slot.bytes == 4 => ParameterKind::Scalar(ScalarType::I32),
        _ => ParameterKind::Other(text.to_owned()),
    }
}

/// Returns the element type of a tensor of this scalar.
pub fn element(scalar: ScalarType) -> Option<ElemType> {
    match scalar {
        ScalarType::Bool => Some(ElemType::U8),
        ScalarType::U64 => Some(ElemType::I64),
        _ => ElemType::ALL
            .into_iter()
            .find(|elem| elem.name() == scalar.name()),
    }
}

/// The DWARF description of a function.
#[derive(Default)]
struct Described {
    parameters: Vec<ListedParameter>,
    /// The file in which it is declared.
    file: Option<PathBuf>,
    line: Option<u64>,
}

impl Described {
    /// Returns true if it is a kernel of the toolkit's libraries.
    fn is_of(&self, toolkit: &Path) -> bool {
        let file = self.file.as_ref().map(|file| lexical(file));
        file.is_some_and(|file| file.starts_with(toolkit))
    }
}

type DwarfReader<'a> = EndianSlice<'a, LittleEndian>;

/// Returns the parameters of each function by its symbol, from DWARF, or `None` if that cannot be read.
fn describe(cubin: &[u8]) -> Option<HashMap<String, Described>> {
    let file = object::File::parse(cubin).ok()?;
    let section = |id: gimli::SectionId| -> std::result::Result<DwarfReader<'_>, gimli::Error> {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    let mut found = HashMap::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let unit = dwarf.unit(header).ok()?;
        let types = Types {
            dwarf: &dwarf,
            unit: &unit,
        };
        let mut entries = unit.entries();
        let mut open: Option<(isize, String, Described)> = None;
        while let Some(entry) = entries.next_dfs().ok()? {
            let depth = entry.depth();
            if open.as_ref().is_some_and(|(at, ..)| depth <= *at)
                && let Some((_, symbol, described)) = open.take()
            {
                found.insert(symbol, described);
            }
            if entry.tag() == dw::DW_TAG_subprogram {
                let linked = [
                    dw::DW_AT_MIPS_linkage_name,
                    dw::DW_AT_linkage_name,
                    dw::DW_AT_name,
                ];
                let symbol = linked.iter().find_map(|at| types.text(entry, *at));
                let described = Described {
                    parameters: Vec::new(),
                    file: types.file(entry),
                    line: entry
                        .attr_value(dw::DW_AT_decl_line)
                        .and_then(|line| line.udata_value()),
                };
                open = symbol.map(|symbol| (depth, symbol, described));
            } else if entry.tag() == dw::DW_TAG_formal_parameter
                && let Some((at, _, described)) = &mut open
                && depth == *at + 1
            {
                let kind = types.reference(entry).map(|to| types.parameter(to));
                described.parameters.push(ListedParameter {
                    name: types.text(entry, dw::DW_AT_name),
                    kind: kind.unwrap_or_else(|| ParameterKind::Other("unknown".to_owned())),
                });
            }
        }
        if let Some((_, symbol, described)) = open {
            found.insert(symbol, described);
        }
    }
    Some(found)
}

type DwarfEntry<'a> = gimli::DebuggingInformationEntry<DwarfReader<'a>>;

struct Types<'a> {
    dwarf: &'a gimli::Dwarf<DwarfReader<'a>>,
    unit: &'a gimli::Unit<DwarfReader<'a>>,
}

/// The reason for which the members of a struct are not listed, as the end of a sentence about the struct.
#[derive(Debug, thiserror::Error)]
enum MembersError {
    #[error("of more than {} members", MOST_MEMBERS)]
    Many,
    #[error("whose members do not lie as C lays them")]
    Layout,
    #[error("with an array of elements that are not known")]
    Array,
    #[error("with a member that is no plain data")]
    NotPlain,
    #[error("whose members cannot be read")]
    Unread(#[from] gimli::Error),
    #[error("with a union")]
    Union,
    #[error("with bit fields")]
    BitFields,
    #[error("with a member whose place is not known")]
    Place,
}

/// A type without qualifiers and other names for it.
enum Plain {
    Scalar(ScalarType),
    Pointer(Option<UnitOffset>),
    /// A struct or a union, with its place and name.
    Struct {
        at: UnitOffset,
        name: String,
        bytes: usize,
    },
    Array {
        of: UnitOffset,
        count: usize,
    },
    Unknown,
}

/// The most names that are followed from one to the next, and the most structs inside each other.
const MOST_NAMES: usize = 32;
/// The most members of a struct that a gates file can be asked to list.
const MOST_MEMBERS: usize = 128;

impl Types<'_> {
    fn text(&self, entry: &DwarfEntry<'_>, at: DwAt) -> Option<String> {
        let value = entry.attr_value(at)?;
        let text = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(String::from_utf8_lossy(text.slice()).into_owned())
    }

    fn file(&self, entry: &DwarfEntry<'_>) -> Option<PathBuf> {
        let number = match entry.attr_value(dw::DW_AT_decl_file)? {
            AttributeValue::FileIndex(number) => number,
            other => other.udata_value()?,
        };
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(number)?;
        let text = |value| {
            let text = self.dwarf.attr_string(self.unit, value).ok()?;
            Some(PathBuf::from(
                String::from_utf8_lossy(text.slice()).into_owned(),
            ))
        };
        let dir = file.directory(header).and_then(text).unwrap_or_default();
        Some(dir.join(text(file.path_name())?))
    }

    fn reference(&self, entry: &DwarfEntry<'_>) -> Option<UnitOffset> {
        match entry.attr_value(dw::DW_AT_type)? {
            AttributeValue::UnitRef(offset) => Some(offset),
            _ => None,
        }
    }

    fn parameter(&self, at: UnitOffset) -> ParameterKind {
        match self.plain(at).0 {
            Plain::Scalar(scalar) => ParameterKind::Scalar(scalar),
            Plain::Pointer(to) => ParameterKind::Pointer(self.pointee(to)),
            Plain::Struct { name, bytes, .. } => match self.members(at, bytes) {
                Ok(members) => ParameterKind::Struct(members),
                Err(why) => ParameterKind::Other(format!("struct {name} of {bytes} bytes, {why}")),
            },
            Plain::Array { .. } | Plain::Unknown => ParameterKind::Other("unknown".to_owned()),
        }
    }

    fn pointee(&self, to: Option<UnitOffset>) -> Pointee {
        let bytes = |is_const, count| Pointee {
            is_const,
            elem: ElemType::U8,
            count,
            is_known: false,
        };
        let Some(to) = to else {
            return bytes(false, 1);
        };
        let (plain, is_const) = self.plain(to);
        let known = |elem, count| Pointee {
            is_const,
            elem,
            count,
            is_known: true,
        };
        match plain {
            Plain::Scalar(scalar) => match element(scalar) {
                Some(elem) => known(elem, 1),
                None => bytes(is_const, 1),
            },
            Plain::Struct {
                name, bytes: size, ..
            } => match element_of_struct(&name, size) {
                Some((elem, count)) => known(elem, count),
                None => bytes(is_const, size.max(1)),
            },
            Plain::Pointer(_) => bytes(is_const, POINTER),
            Plain::Array { .. } | Plain::Unknown => bytes(is_const, 1),
        }
    }

    /// Returns the members of a struct, which cover all of its bytes in their order.
    fn members(
        &self,
        at: UnitOffset,
        bytes: usize,
    ) -> std::result::Result<Vec<Member>, MembersError> {
        let mut placed = Vec::new();
        self.place(at, Within::default(), &mut placed)?;
        fill_gaps(placed, bytes).ok_or(MembersError::Layout)
    }

    /// Collects each scalar and pointer of a type, with the byte at which it begins.
    fn place(
        &self,
        at: UnitOffset,
        within: Within,
        placed: &mut Vec<(usize, Member)>,
    ) -> std::result::Result<(), MembersError> {
        if placed.len() >= MOST_MEMBERS || within.depth > MOST_NAMES {
            return Err(MembersError::Many);
        }
        let offset = within.offset;
        match self.plain(at).0 {
            Plain::Scalar(scalar) if within.is_element => {
                placed.push((offset, Member::Element(within.name, scalar)));
            }
            Plain::Scalar(scalar) => placed.push((offset, Member::Scalar(within.name, scalar))),
            Plain::Pointer(to) => {
                placed.push((offset, Member::Pointer(within.name, self.pointee(to))));
            }
            Plain::Array { count, .. } if count > MOST_MEMBERS => return Err(MembersError::Many),
            Plain::Array { of, count } => {
                let each = self.bytes(of).ok_or(MembersError::Array)?;
                for number in 0..count {
                    let name = number.to_string();
                    let mut within = within.inside(&name, number.saturating_mul(each));
                    within.is_element = true;
                    self.place(of, within, placed)?;
                }
            }
            Plain::Struct { at, .. } => self.place_members(at, &within, placed)?,
            Plain::Unknown => return Err(MembersError::NotPlain),
        }
        Ok(())
    }

    fn place_members(
        &self,
        at: UnitOffset,
        within: &Within,
        placed: &mut Vec<(usize, Member)>,
    ) -> std::result::Result<(), MembersError> {
        let mut tree = self.unit.entries_tree(Some(at))?;
        let root = tree.root()?;
        if root.entry().tag() == dw::DW_TAG_union_type {
            return Err(MembersError::Union);
        }
        let mut children = root.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_member = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            // A static member is not in the struct.
            if !is_member || entry.has_attr(dw::DW_AT_external) {
                continue;
            }
            if entry.has_attr(dw::DW_AT_bit_size) {
                return Err(MembersError::BitFields);
            }
            let place = location(self.unit, entry).zip(self.reference(entry));
            let (offset, of) = place.ok_or(MembersError::Place)?;
            // Inherited members count as the struct's own.
            let name = match entry.tag() {
                dw::DW_TAG_inheritance => None,
                _ => self.text(entry, dw::DW_AT_name),
            };
            self.place(of, within.inside(&name.unwrap_or_default(), offset), placed)?;
        }
        Ok(())
    }

    fn bytes(&self, at: UnitOffset) -> Option<usize> {
        Some(match self.plain(at).0 {
            Plain::Scalar(scalar) => scalar.size(),
            Plain::Pointer(_) => POINTER,
            Plain::Struct { bytes, .. } => bytes,
            Plain::Array { of, count } => match self.plain(of).0 {
                // DWARF has all extents of an array at one place, so this is an array inside an array.
                Plain::Array { .. } => return None,
                _ => self.bytes(of)?.checked_mul(count)?,
            },
            Plain::Unknown => return None,
        })
    }

    /// Returns the number of elements of an array, over all of its dimensions.
    fn extent(&self, at: UnitOffset) -> Option<usize> {
        let mut tree = self.unit.entries_tree(Some(at)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut count = 1usize;
        while let Some(child) = children.next().ok()? {
            let entry = child.entry();
            if entry.tag() == dw::DW_TAG_subrange_type {
                let number = |at| entry.attr_value(at)?.udata_value();
                let extent = match number(dw::DW_AT_count) {
                    Some(extent) => extent,
                    None => number(dw::DW_AT_upper_bound)?.checked_add(1)?,
                };
                count = count.checked_mul(usize::try_from(extent).ok()?)?;
            }
        }
        Some(count)
    }

    fn plain(&self, at: UnitOffset) -> (Plain, bool) {
        let (mut at, mut is_const) = (at, false);
        for _ in 0..MOST_NAMES {
            let Ok(entry) = self.unit.entry(at) else {
                return (Plain::Unknown, is_const);
            };
            let bytes = entry.attr_value(dw::DW_AT_byte_size);
            let bytes = bytes
                .and_then(|byte| byte.udata_value())
                .unwrap_or_default() as usize;
            let plain = match entry.tag() {
                dw::DW_TAG_const_type
                | dw::DW_TAG_typedef
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type => {
                    is_const |= entry.tag() == dw::DW_TAG_const_type;
                    match self.reference(&entry) {
                        Some(next) => {
                            at = next;
                            continue;
                        }
                        // The type is const void.
                        None => Plain::Unknown,
                    }
                }
                dw::DW_TAG_pointer_type => Plain::Pointer(self.reference(&entry)),
                dw::DW_TAG_base_type => {
                    let encoding = match entry.attr_value(dw::DW_AT_encoding) {
                        Some(AttributeValue::Encoding(encoding)) => Some(encoding),
                        _ => None,
                    };
                    match encoding.and_then(|encoding| base_type(encoding, bytes)) {
                        Some(scalar) => Plain::Scalar(scalar),
                        None => Plain::Unknown,
                    }
                }
                dw::DW_TAG_enumeration_type => match base_type(dw::DW_ATE_signed, bytes) {
                    Some(scalar) => Plain::Scalar(scalar),
                    None => Plain::Unknown,
                },
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                    let name = self.text(&entry, dw::DW_AT_name).unwrap_or_default();
                    match (name.as_str(), bytes) {
                        ("__half", 2) => Plain::Scalar(ScalarType::F16),
                        ("__nv_bfloat16", 2) => Plain::Scalar(ScalarType::Bf16),
                        _ => Plain::Struct { at, name, bytes },
                    }
                }
                dw::DW_TAG_array_type => match (self.reference(&entry), self.extent(at)) {
                    (Some(of), Some(count)) => Plain::Array { of, count },
                    _ => Plain::Unknown,
                },
                _ => Plain::Unknown,
            };
            return (plain, is_const);
        }
        (Plain::Unknown, is_const)
    }
}

/// The place of something inside a struct.
#[derive(Clone, Default)]
struct Within {
    /// The names of the structs that it is in, and its own, such as `shape_rows`.
    name: String,
    offset: usize,
    is_element: bool,
    depth: usize,
}

impl Within {
    fn inside(&self, name: &str, offset: usize) -> Self {
        let names = [self.name.as_str(), name];
        let named = names.into_iter().filter(|name| !name.is_empty());
        Self {
            name: named.collect::<Vec<_>>().join("_"),
            offset: self.offset.saturating_add(offset),
            is_element: false,
            depth: self.depth + 1,
        }
    }
}

/// Returns the offset of a member from the beginning of its struct, in bytes.
fn location(unit: &gimli::Unit<DwarfReader<'_>>, entry: &DwarfEntry<'_>) -> Option<usize> {
    match entry.attr_value(dw::DW_AT_data_member_location)? {
        AttributeValue::Exprloc(place) => match place.operations(unit.encoding()).next() {
            Ok(Some(Operation::PlusConstant { value })) => usize::try_from(value).ok(),
            _ => None,
        },
        other => usize::try_from(other.udata_value()?).ok(),
    }
}

/// Adds padding between members wherever it differs from the padding that C's rules of alignment leave. Returns `None`
/// if members overlap, or are not aligned to their size.
fn fill_gaps(mut placed: Vec<(usize, Member)>, bytes: usize) -> Option<Vec<Member>> {
    placed.sort_by_key(|(offset, _)| *offset);
    let mut members = Vec::new();
    let (mut end, mut align) = (0usize, 1);
    for (offset, member) in placed {
        let own = member.bytes();
        let gap = offset.checked_sub(end)?;
        if !offset.is_multiple_of(own) {
            return None;
        }
        if offset != end.next_multiple_of(own) {
            members.push(Member::Pad(gap));
        }
        end = offset + own;
        align = align.max(own);
        members.push(member);
    }
    let left = bytes.checked_sub(end)?;
    if end.next_multiple_of(align) != bytes || members.is_empty() {
        members.push(Member::Pad(left));
    }
    Some(members)
}

fn base_type(encoding: gimli::DwAte, bytes: usize) -> Option<ScalarType> {
    let number = match encoding {
        dw::DW_ATE_boolean if bytes == 1 => Number::Bool,
        dw::DW_ATE_float if bytes > 2 => Number::Float(bytes),
        dw::DW_ATE_signed => Number::Signed(bytes),
        dw::DW_ATE_signed_char if bytes == 1 => Number::Signed(bytes),
        dw::DW_ATE_unsigned => Number::Unsigned(bytes),
        dw::DW_ATE_unsigned_char if bytes == 1 => Number::Unsigned(bytes),
        _ => return None,
    };
    ScalarType::ALL
        .into_iter()
        .find(|scalar| scalar.number() == number)
}

/// Returns the element type of the toolkit's own structs: half precision, and vectors of one type.
fn element_of_struct(name: &str, bytes: usize) -> Option<(ElemType, usize)> {
    let (elem, _) = vector_named(name)?;
    let count = bytes / elem.size();
    (count > 0 && bytes.is_multiple_of(elem.size())).then_some((elem, count))
}

/// Returns the element type and the number of elements of a vector with this name, such as `float4`.
pub fn vector_named(name: &str) -> Option<(ElemType, usize)> {
    if let Some(elem) = element_named(name) {
        return Some((elem, 1));
    }
    let base = name.trim_end_matches(['1', '2', '3', '4']);
    let elem = match base {
        "__nv_bfloat16" => ElemType::Bf16,
        "uint" | "unsigned" => ElemType::U32,
        "ushort" => ElemType::U16,
        "uchar" => ElemType::U8,
        "longlong" | "ulong" | "ulonglong" => ElemType::I64,
        base => element_named(base)?,
    };
    Some((elem, name.get(base.len()..)?.parse().unwrap_or(1)))
}

/// Returns the element type with this name, in any namespace. PyTorch's own names have no underscores.
pub fn element_named(name: &str) -> Option<ElemType> {
    Some(match name.rsplit("::").next()? {
        "half" | "Half" => ElemType::F16,
        "nv_bfloat16" | "BFloat16" => ElemType::Bf16,
        "__nv_fp8_e4m3" | "Float8_e4m3fn" => ElemType::E4m3,
        "__nv_fp8_e5m2" | "Float8_e5m2" => ElemType::E5m2,
        "int32_t" => ElemType::I32,
        "uint32_t" => ElemType::U32,
        "int64_t" => ElemType::I64,
        own => return scalar_named(own).and_then(element),
    })
}
