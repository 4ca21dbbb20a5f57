//! Reads how kernels are called from the text of sources: the launches that they write, and the names of sizes. For a
//! kernel that nothing launches, reads how it finds its elements.
//!
//! This is not a parser of C++. A name stands for its nearest definition before the launch, then for a macro or a
//! constant of any file. A name that cannot be followed has no value, and then the call is not known.

use super::call::{CallError, NoValue};
use super::parts::{InputKind, KernelInput};
use super::sizes;
use build::inventory::{ListedKernel, Pointee, element_named, vector_named};
use model::LaunchBounds;
use model::expr::{Env, Expression};
use regex::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use system::files;

/// The number of threads of a block if any number is right, because callers choose it or the kernel
/// asks `blockDim`.
const THREADS: &str = "256";
const SIDE: &str = "16";
/// The number of blocks for a kernel that takes any number of them.
const BLOCKS: u64 = 4;
/// The most names that are replaced in one expression.
const MOST_NAMES: usize = 64;
/// The most definitions that are followed from one to the next.
const MOST_NESTED: usize = 8;
/// The length in bytes at which an expression stops growing, while names are replaced by their definitions. A longer
/// one would tell a reader nothing either.
const LONGEST: usize = 4096;
/// The size of the largest source that is read, in bytes. People do not write larger ones.
const MOST_SOURCE: u64 = 4 << 20;

/// A call as a source writes it. Its expressions are written as in gates.yaml, over the dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCall {
    pub dims: Vec<ReadDim>,
    /// The values of integers, by the name of the kernel's input.
    pub values: BTreeMap<String, String>,
    pub grid: Vec<String>,
    pub block: Vec<String>,
    pub shared: String,
    pub cooperative: bool,
    /// The elements behind pointers whose type does not tell (`void *`), by the name of the kernel's input. `None` is a
    /// null pointer.
    pub pointees: BTreeMap<String, Option<Pointee>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDim {
    pub name: String,
    /// The only value that the size has, if it is a template's parameter.
    pub fixed: Option<u64>,
}

impl ReadCall {
    fn add_dim(&mut self, name: &str, fixed: Option<u64>) {
        if self.dims.iter().all(|dim| dim.name != name) {
            let name = name.to_owned();
            self.dims.push(ReadDim { name, fixed });
        }
    }
}

/// The compiler's answers about types and constants that the text does not tell.
#[derive(Default)]
pub struct Answers {
    known: HashMap<String, String>,
    /// The questions so far, or `None` if no more are asked. Until there are answers, any number
    /// stands for one.
    open: Option<Mutex<BTreeSet<String>>>,
}

impl Answers {
    pub fn collecting() -> Self {
        Self {
            open: Some(Mutex::default()),
            ..Self::default()
        }
    }

    pub fn new(known: HashMap<String, String>) -> Self {
        Self { known, open: None }
    }

    /// Returns the questions, as [`build::inventory::name_types`] takes them.
    pub fn questions(self) -> Vec<String> {
        let asked = self.open.and_then(|asked| asked.into_inner().ok());
        asked.unwrap_or_default().into_iter().collect()
    }

    fn ask_type(&self, name: &str) -> Option<String> {
        if let Some(mut asked) = self.open.as_ref().and_then(|asked| asked.lock().ok()) {
            asked.insert(name.to_owned());
            return Some("1".to_owned());
        }
        self.known.get(name).cloned()
    }

    fn ask_number(&self, expression: &str) -> Option<String> {
        let answer = self.ask_type(&format!("number<(long long)({expression})>"))?;
        let digits = answer.strip_prefix("number<").unwrap_or(&answer);
        let digits = digits.trim_end_matches(['>', 'L']);
        digits.parse::<i64>().is_ok().then(|| digits.to_owned())
    }
}

/// A launch of a kernel, as written.
#[derive(Clone, Default)]
struct WrittenLaunch {
    file: usize,
    /// The text from the beginning of the function to the launch.
    before: String,
    template: Vec<String>,
    config: Vec<String>,
    args: Vec<String>,
    cooperative: bool,
}

/// The definition of a kernel in a source.
struct KernelBody {
    file: usize,
    template: Vec<String>,
    text: String,
}

/// All sources of a repository, without comments.
#[derive(Default)]
pub struct Texts {
    files: Vec<String>,
    sites: HashMap<String, Vec<WrittenLaunch>>,
    bodies: HashMap<String, Vec<KernelBody>>,
    /// Macros and constants, each with the files that define it.
    constants: HashMap<String, Vec<(usize, String)>>,
}

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            #[allow(clippy::unwrap_used, reason = "the text is constant")]
            Regex::new($text).unwrap()
        });
    };
}

pattern!(
    CONSTANT,
    r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$|\b(?:const|constexpr)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|auto|unsigned|long|short|char|bool|u?int\d*_t|uint|size_t)\s+(\w+)\s*=\s*([^;]+);"
);
pattern!(WORD, r"[A-Za-z_]\w*");
pattern!(
    CAST,
    r"\b(?:static_cast|const_cast|reinterpret_cast)\s*<[^<>]*>|\(\s*(?:const\s+)?(?:unsigned|int|long|short|char|float|uint|size_t|u?int\d+_t)(?:\s+(?:int|long|char))*\s*\)|\b(?:int|unsigned|uint|size_t|u?int\d+_t)\s*(\()|\bstd::"
);
pattern!(
    CEIL_DIV,
    r"\b(?:\w+::)*\w*(?i-u:ceil_?div|div_?ceil|div_?up|cdiv|up_?div|div_?round_?up|divide_?and_?round_?up|ceil_?divide)\w*\s*(?:<[^<>()]*>)?\s*\("
);
pattern!(MEMBER, r"\b(\w+)\.([xyz])\b");
pattern!(MEMBERS, r"\b([A-Za-z_]\w*)((?:(?:\.|->)[A-Za-z_]\w*)+)");
pattern!(QUALIFIED, r"\b(\w+)((?:::\w+)+)\b");
// A launch that names its kernel by a variable.
pattern!(
    POINTED,
    r"\b(?:auto|void)\s*\*?\s*(?:const\s+)?(\w+)\s*=\s*([^;]+);"
);
// A launch through a function of the runtime.
pattern!(LAUNCH, r"\bcudaLaunch(?:Cooperative)?Kernel(?:ExC?)?\s*\(");
// A kernel that is cast to a pointer to anything.
pattern!(
    VOID_CAST,
    r"\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)|\b(?:static|reinterpret)_cast\s*<[^<>]*>"
);
// A comment, a backslash at the end of a line, or a string.
pattern!(
    UNREAD,
    r#"//[^\n]*|/\*(?s:.*?)(?:\*/|\z)|\\\n|"[^"\n]*(?:["\n]|\z)"#
);
pattern!(CALLABLE, r"^&?\s*[\w:]+(?:<.*>)?$");
pattern!(OPTIONAL, r"\b(\w+)\s*[!=]=\s*(?:nullptr|NULL)\b");
pattern!(
    POINTER_CAST,
    r"\b(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*[^>]*>\s*\(\s*(\w+)"
);
pattern!(CEIL, r"\bceilf?\s*\(([^()/]+)/([^()/]+)\)");
pattern!(SUFFIX, r"\b(\d+)(?:[uUlL]+|\.0*[fF]?)([^\w.]|$)");
pattern!(SHIFT, r"\b(\d+)\s*<<\s*(\d+)\b");
pattern!(SIZEOF, r"\bsizeof\s*\(\s*(\w+)\s*\)");
// Brackets behind a name belong to the call of a function.
pattern!(PLAIN, r"(?<before>^|\W)\((?<word>\w+)\)");
pattern!(PRODUCT, r"(^|\W)\((\d+) \* (\d+)\)");
pattern!(
    BLOCK_SIZE,
    r"^(?i-u:\w*block_?(?:size|dim)(?:_?x)?|\w*n?_?threads(?:_?(?:per|in)_?block)?|tpb|threads_?num)$"
);

impl Texts {
    pub fn read<'a>(root: &Path, paths: impl Iterator<Item = &'a String>) -> Self {
        let mut texts = Self::default();
        for path in paths {
            if let Ok(text) = files::read_text(&root.join(path), MOST_SOURCE) {
                texts.add(path, &without_comments(&text));
            }
        }
        texts
    }

    fn add(&mut self, path: &str, text: &str) {
        let file = self.files.len();
        self.files.push(path.to_owned());
        for found in CONSTANT.captures_iter(text) {
            let part = |at: usize| found.get(at).map(|part| part.as_str().trim().to_owned());
            let named = part(1).zip(part(2)).or_else(|| part(3).zip(part(4)));
            if let Some((name, value)) = named {
                let known = self.constants.entry(name).or_default();
                known.push((file, value));
            }
        }
        let launches = text.match_indices("<<<");
        let launches = launches.filter_map(|(at, _)| site(file, text, at));
        let calls = LAUNCH.find_iter(text);
        let calls = calls.filter_map(|call| called_site(file, text, call));
        for (name, site) in launches.chain(calls) {
            for (name, template) in pointed_kernels(&site.before, &name) {
                let site = WrittenLaunch {
                    template,
                    ..site.clone()
                };
                self.sites.entry(name).or_default().push(site);
            }
            self.sites.entry(name).or_default().push(site);
        }
        for (at, keyword) in text.match_indices("__global__") {
            if let Some((name, body)) = body(file, text, at, at + keyword.len()) {
                self.bodies.entry(name).or_default().push(body);
            }
        }
    }

    /// Returns the call of a kernel, from a launch (the source's own launches come first) or from the kernel's
    /// own text.
    ///
    /// # Errors
    /// Returns the first part of the call that the sources do not say.
    pub fn call_of(
        &self,
        (source, define, answers): (&str, &[(String, String)], &Answers),
        kernel: &ListedKernel,
        parts: &[KernelInput],
        bounds: LaunchBounds,
    ) -> Result<ReadCall, CallError> {
        let (name, instance) = split_name(&kernel.name);
        let file = self.files.iter().position(|path| path == source);
        let bodies = self.bodies.get(name).map_or(&[][..], Vec::as_slice);
        let body = bodies
            .iter()
            .find(|body| Some(body.file) == file)
            .or(bodies.first());
        let template = body.map_or(&[][..], |body| &body.template);
        let instances = template.iter().cloned().zip(instance.clone());
        let own: HashMap<String, String> = define.iter().cloned().chain(instances).collect();
        let mut sites: Vec<&WrittenLaunch> = self.sites.get(name).into_iter().flatten().collect();
        sites.sort_by_key(|site| {
            let is_instance = site.template.iter().eq(&instance);
            (Some(site.file) != file, !is_instance)
        });
        let text = body.map(|body| flat_members(&body.text, parts));
        let own_scope = body
            .zip(text.as_deref())
            .map(|(body, text)| SourceScope::new(self, body.file, text, own.clone(), answers));
        let pointees = own_scope.as_ref().map(|scope| scope.pointees(parts));
        let pointees = pointees.unwrap_or_default();
        let mut refused = None;
        for site in sites {
            let before = flat_members(&site.before, parts);
            let mut scope = SourceScope::new(self, site.file, &before, own.clone(), answers);
            let mut arguments = site.template.iter().zip(&instance);
            let fits = arguments.all(|(text, value)| scope.unify(text, value));
            scope.free.clear();
            if !fits {
                refused.get_or_insert(CallError::OtherInstances);
                continue;
            }
            match scope.launched(site, kernel, parts, template, &instance) {
                Ok(call) => return Ok(ReadCall { pointees, ..call }),
                Err(why) => {
                    refused.get_or_insert(why);
                }
            }
        }
        if let Some(why) = refused {
            return Err(why);
        }
        let mut scope = own_scope.ok_or(CallError::NotLaunched)?;
        let call = scope.unlaunched(kernel, parts, (template, &instance), bounds)?;
        Ok(ReadCall { pointees, ..call })
    }
}

/// Returns the kernels that a variable may lead to, with their template arguments: `auto f = p ? &a<T> : &b<T>`.
fn pointed_kernels(before: &str, variable: &str) -> Vec<(String, Vec<String>)> {
    let found = POINTED
        .captures_iter(before)
        .filter(|found| found.get(1).map(|name| name.as_str()) == Some(variable));
    let Some(value) = found.last().and_then(|found| found.get(2)) else {
        return Vec::new();
    };
    let value = VOID_CAST
        .replace_all(value.as_str(), "")
        .replace("::", "\0");
    value
        .split(['?', ':'])
        .map(|kernel| kernel.trim().replace('\0', "::"))
        .filter(|kernel| CALLABLE.is_match(kernel))
        .map(|kernel| {
            let (name, template) = split_name(kernel.trim_start_matches(['&', ' ']));
            (name.to_owned(), template)
        })
        .collect()
}

/// The names at one place of a source, with their meaning there.
struct SourceScope<'a> {
    texts: &'a Texts,
    file: usize,
    before: &'a str,
    /// The parameters of the template around the place.
    parameters: Vec<String>,
    answers: &'a Answers,
    bindings: HashMap<String, String>,
    /// The names that are sizes here.
    free: Vec<String>,
    /// The number of definitions that are being followed.
    depth: usize,
}

impl<'a> SourceScope<'a> {
    fn new(
        texts: &'a Texts,
        file: usize,
        before: &'a str,
        bindings: HashMap<String, String>,
        answers: &'a Answers,
    ) -> Self {
        Self {
            texts,
            file,
            before,
            parameters: template_parameters(before),
            answers,
            bindings,
            free: Vec::new(),
            depth: 0,
        }
    }

    /// Binds the names in a template argument of a launch to the values that an instance has. Returns false if the two
    /// contradict each other.
    fn unify(&mut self, text: &str, value: &str) -> bool {
        if text.ends_with('>') && value.ends_with('>') {
            let ((name, texts), (other, values)) = (split_name(text), split_name(value));
            let mut arguments = texts.iter().zip(&values);
            return name == other && arguments.all(|(text, value)| self.unify(text, value));
        }
        let number = |text: &str| text.parse::<i64>().ok();
        let definition = self.definition(text);
        let is_parameter = model::expr::is_identifier(text) && definition.is_none();
        let own = self.resolve(text).ok().and_then(|own| number(&own));
        let differs = own
            .zip(number(value))
            .is_some_and(|(own, value)| own != value);
        if differs && !is_parameter {
            return false;
        }
        let alias = definition.filter(|alias| alias.ends_with('>'));
        self.bindings.insert(text.to_owned(), value.to_owned());
        alias.is_none_or(|alias| !value.ends_with('>') || self.unify(&alias, value))
    }

    /// Returns what pointers lead to. For a `void*`, that is what the kernel casts it to. A pointer in a struct is null
    /// if the kernel tests it for null, because some callers leave it out, or if the kernel does not read it.
    fn pointees(&self, parts: &[KernelInput]) -> BTreeMap<String, Option<Pointee>> {
        let optional: Vec<&str> = OPTIONAL
            .captures_iter(self.before)
            .map(|found| {
                let [name] = found.extract().1;
                name
            })
            .collect();
        parts
            .iter()
            .filter_map(|part| {
                let InputKind::Pointer(pointee) = part.kind else {
                    return None;
                };
                let name = part.name.as_str();
                let is_null = optional.contains(&name) || !part.is_read;
                if part.member.is_some() && is_null {
                    return Some((name.to_owned(), None));
                }
                let casts = POINTER_CAST.captures_iter(self.before);
                let mut casts = casts.map(|cast| cast.extract::<2>().1);
                let [elem, _] = casts.find(|[_, pointer]| *pointer == name)?;
                let elem = element_named(&self.type_of(elem)?)?;
                let known = Pointee {
                    elem,
                    count: 1,
                    is_known: true,
                    ..pointee.clone()
                };
                (!pointee.is_known).then(|| (name.to_owned(), Some(known)))
            })
            .collect()
    }

    /// Returns a type with the names in it replaced by what they stand for here.
    fn type_of(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for _ in 0..MOST_NESTED {
            let next = self.bindings.get(&name).cloned();
            let Some(next) = next.or_else(|| self.definition(&name)) else {
                break;
            };
            name = next.trim_start_matches("typename ").to_owned();
        }
        match name.split_once("::") {
            Some((head, member)) if self.bindings.contains_key(head) => {
                let of = self.bindings.get(head)?;
                self.answers.ask_type(&format!("{of}::{member}"))
            }
            _ => Some(name),
        }
    }

    /// Replaces constants of types by their values: `Traits::THREADS`.
    fn without_qualified(&self, text: &str) -> String {
        let replaced = QUALIFIED.replace_all(text, |found: &Captures| {
            let [whole, head, member] =
                [0, 1, 2].map(|at| found.get(at).map_or("", |part| part.as_str()));
            let of = self.type_of(head).unwrap_or_default();
            let value = self.answers.ask_number(&format!("{of}{member}"));
            value.unwrap_or_else(|| whole.to_owned())
        });
        replaced.into_owned()
    }

    /// Returns the number that a template argument of the launch gives to a size: the 4 of `kWidth` for
    /// `width`.
    fn fixed(&self, size: &str) -> Option<u64> {
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let bound = self.bindings.iter().find(|(name, _)| {
            let constant = name.strip_prefix('k').unwrap_or_default();
            constant.starts_with(char::is_uppercase) && plain(constant) == plain(size)
        })?;
        bound.1.parse().ok()
    }

    fn launched(
        &mut self,
        site: &WrittenLaunch,
        kernel: &ListedKernel,
        parts: &[KernelInput],
        template: &[String],
        instance: &[String],
    ) -> Result<ReadCall, CallError> {
        if site.args.len() != kernel.parameters.len() {
            return Err(CallError::ArgumentCount);
        }
        let mut call = ReadCall {
            cooperative: site.cooperative,
            ..ReadCall::default()
        };
        let sized = || {
            let is_size = |part: &&KernelInput| matches!(part.kind, InputKind::Size(_));
            parts.iter().filter(is_size).map(|part| {
                // A member of a struct has no argument of its own.
                let text = site.args.get(part.parameter);
                let text = text.filter(|_| part.member.is_none());
                (part, text.map_or("", |text| text.as_str()))
            })
        };
        for (part, text) in sized() {
            let is_named = model::expr::is_identifier(text) && !self.bindings.contains_key(text);
            let depends = is_named
                && self
                    .resolve_definition(text)
                    .is_some_and(|value| has_names(&value));
            let is_own = text.is_empty() && sizes::is_size(&part.name);
            if is_own
                || is_named && !depends && (sizes::is_size(&part.name) || sizes::is_size(text))
            {
                call.add_dim(&part.name, self.fixed(&part.name));
                self.bindings.insert(text.to_owned(), part.name.clone());
                self.free.push(part.name.clone());
            }
        }
        let mut strides = Vec::new();
        for (part, text) in sized() {
            let value = match text {
                "" if sizes::is_size(&part.name) => Ok(part.name.clone()),
                "" => Err(NoValue(String::new())),
                "true" => Ok("1".to_owned()),
                "false" => Ok("0".to_owned()),
                text => self.resolve(text),
            };
            match value {
                Ok(value) => {
                    for word in words(&value) {
                        call.add_dim(word, None);
                    }
                    call.values.insert(part.name.clone(), value);
                }
                Err(_) => strides.push(part),
            }
        }
        if call.dims.is_empty() {
            for (name, value) in template.iter().zip(instance) {
                if let Ok(value) = value.parse() {
                    call.add_dim(name, Some(value));
                }
            }
        }
        let mut config = site.config.iter().map(|text| flat_members(text, parts));
        call.grid = self.extents(config.next(), "grid")?;
        call.block = self.extents(config.next(), "block")?;
        call.shared = match config.next() {
            Some(text) => self.resolve(&text).map_err(unread("shared memory"))?,
            None => "0".to_owned(),
        };
        let texts = call.grid.iter().chain(&call.block).chain([&call.shared]);
        let launched: Vec<String> = texts
            .flat_map(|text| words(text))
            .map(str::to_owned)
            .collect();
        for name in &launched {
            call.add_dim(name, None);
        }
        let all = call.dims.clone();
        let unread = |name: &str| {
            let is_it =
                |part: &KernelInput| part.name == name && !part.is_read && part.member.is_some();
            parts.iter().any(is_it) && !launched.iter().any(|own| own == name)
        };
        call.dims.retain(|dim| !unread(&dim.name));
        let known: Vec<&str> = call.dims.iter().map(|dim| dim.name.as_str()).collect();
        let mut more = Vec::new();
        let names: Vec<&str> = strides.iter().map(|part| part.name.as_str()).collect();
        let members: Vec<&str> = all.iter().map(|dim| dim.name.as_str()).collect();
        for part in strides {
            let stride = sizes::stride_of_axes(&part.name, &names, &members);
            let stride = stride.or_else(|| sizes::stride(&part.name, &known));
            let unread = (!part.is_read).then(|| "0".to_owned());
            let value = stride
                .or(unread)
                .ok_or_else(|| CallError::NoSize(part.name.clone()))?;
            if part.is_read {
                more.extend(words(&value).map(str::to_owned));
            }
            call.values.insert(part.name.clone(), value);
        }
        for name in more {
            call.add_dim(&name, self.fixed(&name));
        }
        // An input that the kernel does not read may hold anything.
        let dims: Vec<String> = call.dims.iter().map(|dim| dim.name.clone()).collect();
        for value in call.values.values_mut() {
            if words(value).any(|word| !dims.iter().any(|dim| dim == word)) {
                *value = "0".to_owned();
            }
        }
        Ok(call)
    }

    fn extents(
        &mut self,
        text: Option<String>,
        part: &'static str,
    ) -> Result<Vec<String>, CallError> {
        let text = text.ok_or_else(|| unread(part)(NoValue(String::new())))?;
        let mut text = text.trim().to_owned();
        for _ in 0..4 {
            let inner = ["dim3(", "dim3{", "{"]
                .iter()
                .find_map(|start| text.strip_prefix(start)?.strip_suffix([')', '}']));
            if let Some(inner) = inner {
                return split(inner)
                    .iter()
                    .map(|extent| self.resolve(extent).map_err(unread(part)))
                    .collect();
            }
            match self.definition(&text) {
                Some(found) => text = found.replace("dim3 {", "dim3{").replace("dim3 (", "dim3("),
                None => break,
            }
        }
        Ok(vec![self.resolve(&text).map_err(unread(part))?])
    }

    /// Returns the nearest definition before the launch, or a constant of this file, or of any
    /// other file.
    fn definition(&self, name: &str) -> Option<String> {
        if !model::expr::is_identifier(name) {
            return None;
        }
        let found = self.before.rmatch_indices(name).find_map(|(at, _)| {
            let (head, rest) = self.before.split_at_checked(at)?;
            let rest = rest.get(name.len()..)?.trim_start();
            if head.ends_with(|c: char| c.is_alphanumeric() || "_.>".contains(c)) {
                return None;
            }
            let statement = head.rsplit([';', '{', '}']).next()?.trim_start();
            if let Some(value) = rest.strip_prefix('=').filter(|rest| !rest.starts_with('=')) {
                // Commas of a type are between angle brackets.
                let is_type = statement.starts_with("using ");
                let end = end_of(value, if is_type { ";" } else { ";," });
                return Some(value.get(..end)?.trim().to_owned());
            }
            let is_dim3 = statement.trim_start_matches("const ").starts_with("dim3 ");
            if is_dim3 && rest.starts_with(['(', '{']) {
                let end = end_of(rest, ";,");
                return Some(format!("dim3{}", rest.get(..end)?.trim()));
            }
            None
        });
        found.or_else(|| {
            if self.parameters.iter().any(|parameter| parameter == name) {
                return None;
            }
            let all = self.texts.constants.get(name)?;
            let own = all.iter().find(|(file, _)| *file == self.file);
            own.or(all.first()).map(|(_, value)| value.clone())
        })
    }

    fn resolve_definition(&mut self, name: &str) -> Option<String> {
        let text = self.definition(name)?;
        self.nested(&text)
    }

    /// Resolves a definition. A definition that leads to itself has no value.
    fn nested(&mut self, text: &str) -> Option<String> {
        self.depth += 1;
        let value = (self.depth < MOST_NESTED).then(|| self.resolve(text).ok());
        self.depth -= 1;
        value.flatten()
    }

    /// Replaces `block.x` by the first extent of a `dim3` that is defined here.
    fn without_members(&mut self, text: &str) -> String {
        let Some(found) = MEMBER.captures_iter(text).find_map(|found| {
            let part = |at| found.get(at).map_or("", |part: regex::Match| part.as_str());
            let axis = "xyz".find(part(2))?;
            self.definition(part(1))
                .filter(|value| value.starts_with("dim3"))?;
            Some((part(0).to_owned(), part(1).to_owned(), axis))
        }) else {
            return text.to_owned();
        };
        let (member, name, axis) = found;
        self.depth += 1;
        let extents = (self.depth < MOST_NESTED).then(|| self.extents(Some(name), "").ok());
        self.depth -= 1;
        let extents = extents.flatten().unwrap_or_default();
        let extent = extents.get(axis).map_or("1", String::as_str);
        text.replace(&member, &format!("({extent})"))
    }

    /// Returns an expression over sizes.
    ///
    /// # Errors
    /// Returns the name or the text that has no value.
    fn resolve(&mut self, text: &str) -> Result<String, NoValue> {
        let mut text = as_expression(&self.without_qualified(text));
        for _ in 0..MOST_NAMES {
            text = self.without_members(&self.without_qualified(&text));
            let open = words(&text).find(|word| !self.free.iter().any(|free| free == word));
            let Some(name) = open.map(str::to_owned) else {
                break;
            };
            let bound = self
                .bindings
                .get(&name)
                .filter(|bound| **bound != name)
                .cloned();
            let value = match bound.or_else(|| self.definition(&name)) {
                value if BLOCK_SIZE.is_match(&name) => {
                    let known = value.and_then(|value| self.nested(&value));
                    let known = known.filter(|value| value.parse::<u32>().is_ok());
                    let default = if name.contains("sqrt") { SIDE } else { THREADS };
                    known.unwrap_or_else(|| default.to_owned())
                }
                // `n = cat(n, n)` would double the text with each turn, and so would two definitions that lead to
                // each other.
                Some(value) if has_name(&value, &name) || text.len() > LONGEST => {
                    return Err(NoValue(name));
                }
                Some(value) => as_expression(&value),
                None if sizes::is_size(&name) => {
                    self.free.push(name);
                    continue;
                }
                None => return Err(NoValue(name)),
            };
            let is_plain = value.chars().all(|c| c.is_alphanumeric() || c == '_');
            let value = if is_plain {
                value
            } else {
                format!("({value})")
            };
            text = replace_word(&text, &name, &value);
        }
        let text = tidy(&text);
        let parsed = Expression::parse(&text).map_err(|_| NoValue(text.clone()))?;
        if parsed.names().is_empty() {
            return parsed
                .integer(&Env::new())
                .map(|value| value.to_string())
                .map_err(|_| NoValue(text));
        }
        Ok(text)
    }

    /// Reads the call of a kernel that nothing launches from the kernel's own text. The kernel makes an index of its
    /// block and thread, and compares it with an extent: threads count up to that extent. Integers are sizes and
    /// strides by their names, like the members of a struct.
    fn unlaunched(
        &mut self,
        kernel: &ListedKernel,
        parts: &[KernelInput],
        (template, instance): (&[String], &[String]),
        bounds: LaunchBounds,
    ) -> Result<ReadCall, CallError> {
        let text = self.before;
        if text.contains("extern __shared__") {
            return Err(CallError::SharedMemory);
        }
        let is_size = |part: &&KernelInput| {
            matches!(part.kind, InputKind::Size(_)) && sizes::is_size(&part.name)
        };
        let sized: Vec<&KernelInput> = parts.iter().filter(is_size).collect();
        self.free = sized.iter().map(|part| part.name.clone()).collect();
        let is_flat = !text.contains("threadIdx.y");
        let default = match bounds.threads {
            Some(threads) if is_flat => threads.to_string(),
            _ if is_flat => THREADS.to_owned(),
            _ => SIDE.to_owned(),
        };
        let (mut grid, mut block) = (Vec::new(), Vec::new());
        let mut counted = None;
        for axis in ["x", "y", "z"] {
            let [has_blocks, has_threads] =
                ["blockIdx", "threadIdx"].map(|index| text.contains(&format!("{index}.{axis}")));
            if !has_blocks && !has_threads && axis != "x" {
                break;
            }
            let (width, guard) = index_along(text, axis);
            let threads = match &width {
                _ if !has_threads => "1".to_owned(),
                Some(width) if !width.starts_with("blockDim") => {
                    self.resolve(width).map_err(unread("block"))?
                }
                _ => default.clone(),
            };
            let only = || match sized.as_slice() {
                [only] if width.is_some() => Some(only.name.clone()),
                _ => None,
            };
            let guard = guard.and_then(|guard| self.resolve(&guard).ok());
            grid.push(match guard.or_else(only) {
                _ if !has_blocks => "1".to_owned(),
                Some(extent) if width.is_some() => format!("ceil_div({extent}, {threads})"),
                Some(extent) => extent,
                None => {
                    let rows = sized.iter().find(|part| sizes::is_rows(&part.name));
                    let any = if width.is_none() { "rows" } else { "blocks" };
                    let name = rows.map_or(any, |part| &part.name).to_owned();
                    counted = counted.or(rows.is_none().then(|| name.clone()));
                    self.free.push(name.clone());
                    name
                }
            });
            block.push(threads);
        }
        let site = WrittenLaunch {
            config: [grid, block]
                .map(|extents| format!("dim3({})", extents.join(", ")))
                .to_vec(),
            args: vec![String::new(); kernel.parameters.len()],
            ..WrittenLaunch::default()
        };
        let mut call = self.launched(&site, kernel, parts, template, instance)?;
        if let Some(name) = counted {
            call.dims.retain(|dim| dim.name != name);
            let fixed = Some(BLOCKS);
            call.dims.insert(0, ReadDim { name, fixed });
        }
        Ok(call)
    }
}

fn unread(part: &'static str) -> impl Fn(NoValue) -> CallError {
    move |source| CallError::Unread { part, source }
}

/// Returns how a kernel uses the index of its block along an axis: the number of threads that a block counts for, if
/// threads of several blocks share an index, and the extent that the index is compared with.
fn index_along(text: &str, axis: &str) -> (Option<String>, Option<String>) {
    let block = format!(r"blockIdx\.{axis}");
    let index = Regex::new(&format!(r"(?:(\w+)\s*=)?([^;{{}},=]*{block}[^;{{}},]*)"));
    let factor = Regex::new(&format!(r"([\w.]+)\s*\*\s*{block}|{block}\s*\*\s*([\w.]+)"));
    let (mut width, mut guard) = (None, None);
    for found in index.iter().flat_map(|index| index.captures_iter(text)) {
        let value = found.get(2).map_or("", |value| value.as_str());
        let value = as_expression(value).replace(['(', ')'], " ");
        if value.contains(&format!("threadIdx.{axis}"))
            && let Some(found) = factor.iter().find_map(|factor| factor.captures(&value))
        {
            let threads = found.get(1).or(found.get(2));
            width = threads.map(|threads| threads.as_str().to_owned());
        }
        let name = found.get(1).map(|name| name.as_str());
        guard = guard.or_else(|| find_guard(text, name?));
    }
    (width, guard)
}

/// Returns the extent that an index is compared with: `n` in `if (i < n)` and in `if (i >= n)
/// return`.
fn find_guard(text: &str, name: &str) -> Option<String> {
    let compared = Regex::new(&format!(r"(?:^|[^\w.>]){name}\s*(?:>=|<)([^<=])")).ok()?;
    let rest = text.get(compared.captures(text)?.get(1)?.start()..)?;
    Some(rest.get(..end_of(rest, ";,&|?"))?.trim().to_owned())
}

/// Replaces `params.to.rows` by the name of its part: `to_rows`.
fn flat_members(text: &str, parts: &[KernelInput]) -> String {
    let replaced = MEMBERS.replace_all(text, |found: &Captures| {
        let [whole, first, rest] =
            [0, 1, 2].map(|at| found.get(at).map_or("", |part| part.as_str()));
        let member = rest
            .replace("->", ".")
            .replacen('.', "", 1)
            .replace('.', "_");
        let is_built_in = first.ends_with("Idx") || first.ends_with("Dim");
        let part = parts
            .iter()
            .find(|part| part.member == Some(&member) && !is_built_in);
        part.map_or(whole, |part| &part.name).to_owned()
    });
    replaced.into_owned()
}

/// Splits `ns::k<float, 4>` into `k` and its arguments.
fn split_name(name: &str) -> (&str, Vec<String>) {
    let (own, arguments) = match name.split_once('<') {
        Some((own, rest)) => (own, rest.trim_end().strip_suffix('>').unwrap_or(rest)),
        None => (name, ""),
    };
    let own = own.rsplit("::").next().unwrap_or(own);
    (own, split_angles(arguments))
}

fn site(file: usize, text: &str, at: usize) -> Option<(String, WrittenLaunch)> {
    let (head, rest) = text.split_at_checked(at)?;
    let mut head_end = head.trim_end();
    let mut template = Vec::new();
    if let Some(inner) = head_end.strip_suffix('>') {
        let open = begin_of(inner, ['<', '>'])?;
        template = split_angles(inner.get(open + 1..)?);
        head_end = inner.get(..open)?.trim_end();
    }
    let start = head_end
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + 1);
    let name = head_end.get(start..)?.to_owned();
    let config = rest.strip_prefix("<<<")?;
    let end = config.match_indices(">>>").map(|(at, _)| at).find(|at| {
        let inner = config.get(..*at).unwrap_or_default();
        inner.matches('(').count() == inner.matches(')').count()
    })?;
    let args = config.get(end + 3..)?.trim_start().strip_prefix('(')?;
    let args = args.get(..end_of(args, ""))?;
    let site = WrittenLaunch {
        file,
        before: function_before(head).to_owned(),
        template,
        config: split(config.get(..end)?),
        args: split(args),
        cooperative: false,
    };
    Some((name, site))
}

/// Returns the text of a function up to a place in it.
fn function_before(head: &str) -> &str {
    head.rsplit("\n}").next().unwrap_or(head)
}

/// Reads `cudaLaunchKernel((void*)kernel, grid, block, args, shared, stream)` with `void* args[] = {&a, &b}`, and the
/// forms with a `cudaLaunchConfig_t`, whose members are assigned before the call.
fn called_site(file: usize, text: &str, call: regex::Match) -> Option<(String, WrittenLaunch)> {
    let before = function_before(text.get(..call.start())?);
    let rest = text.get(call.end()..)?;
    let given = split(rest.get(..end_of(rest, ""))?);
    let is_configured = call.as_str().contains("Ex");
    let (config, given) = if is_configured {
        let name = given.first()?.trim_start_matches(['&', ' ']);
        let member = |member: &str| {
            let assigned = format!(r"\b{name}\s*\.\s*{member}\s*=\s*([^;]+);");
            let assigned = Regex::new(&assigned).ok()?;
            let last = assigned.captures_iter(before).last()?;
            Some(last.get(1)?.as_str().trim().to_owned())
        };
        let extents = [member("gridDim")?, member("blockDim")?];
        let shared = member("dynamicSmemBytes").unwrap_or_else(|| "0".to_owned());
        ([&extents[..], &[shared]].concat(), given.get(1..)?.to_vec())
    } else {
        (Vec::new(), given)
    };
    // Commas between angle brackets separate the arguments of one template.
    let is_whole = |count: &usize| {
        let kernel = given.get(..*count).unwrap_or_default().concat();
        kernel.matches('<').count() == kernel.matches('>').count()
    };
    let count = (1..=given.len()).find(is_whole)?;
    let (kernel, given) = given.split_at_checked(count)?;
    let kernel = kernel.join(", ");
    let kernel = VOID_CAST.replace_all(&kernel, "");
    let (name, template) = split_name(kernel.trim_matches(['(', ')', '&', ' ']));
    let (config, args) = match (given, is_configured) {
        (args, true) if call.as_str().contains("Ex(") => (config, args.to_vec()),
        ([args, ..], true) => (config, listed(before, args)?),
        ([grid, block, args, shared, ..], false) => {
            let config = [grid, block, shared].map(Clone::clone);
            (config.to_vec(), listed(before, args)?)
        }
        _ => return None,
    };
    let site = WrittenLaunch {
        file,
        before: before.to_owned(),
        template,
        config,
        args,
        cooperative: call.as_str().contains("Cooperative"),
    };
    Some((name.to_owned(), site))
}

/// Returns what the elements of an array of pointers lead to: `a` and `b` for `void* args[] = {&a,
/// &b}`.
fn listed(before: &str, array: &str) -> Option<Vec<String>> {
    let begin = Regex::new(&format!(r"\b{array}\s*\[[^\]]*\]\s*=?\s*\{{")).ok()?;
    let rest = before.get(begin.find_iter(before).last()?.end()..)?;
    let elements = split(rest.get(..end_of(rest, ""))?);
    let led = |element: &String| {
        Some(
            element
                .rsplit_once('&')?
                .1
                .trim_matches([' ', ')'])
                .to_owned(),
        )
    };
    elements.iter().map(led).collect()
}

fn body(file: usize, text: &str, at: usize, behind: usize) -> Option<(String, KernelBody)> {
    let mut rest = text.get(behind..)?;
    let name = loop {
        let open = rest.find('(')?;
        let name = words_of(rest.get(..open)?).last()?;
        rest = rest.get(open + 1..)?;
        rest = rest.get(end_of(rest, "") + 1..)?;
        if !name.starts_with("__") {
            break name.to_owned();
        }
    };
    let inner = rest.trim_start().strip_prefix('{')?;
    let head = text.get(..at)?;
    let head = head.rsplit([';', '}']).next()?;
    let body = KernelBody {
        file,
        template: template_parameters(head),
        text: inner.get(..end_of(inner, ""))?.to_owned(),
    };
    Some((name, body))
}

/// Returns the names of the last template's parameters.
fn template_parameters(text: &str) -> Vec<String> {
    let header = text.rfind("template").and_then(|at| {
        let header = text.get(at..)?.split_once('<')?.1;
        let end = header.find(['(', '{', ';']).unwrap_or(header.len());
        Some(header.get(..end)?.rsplit_once('>')?.0)
    });
    split_angles(header.unwrap_or_default())
        .into_iter()
        .filter_map(|parameter| {
            let own = parameter.split('=').next()?;
            words_of(own).last().map(str::to_owned)
        })
        .collect()
}

/// Returns the end of a text: the place of a bracket that the text does not open, or of one of these
/// characters.
fn end_of(text: &str, stops: &str) -> usize {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth < 0 || depth == 0 && stops.contains(*c)
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// Returns the place of the bracket that is closed right behind this text.
fn begin_of(text: &str, [open, close]: [char; 2]) -> Option<usize> {
    let mut depth = 1;
    let found = text.char_indices().rev().find(|(_, c)| {
        depth += i32::from(*c == close) - i32::from(*c == open);
        depth == 0
    });
    found.map(|(at, _)| at)
}

fn split_at(text: &str, is_angled: bool) -> Vec<String> {
    let mut depth = 0;
    let pieces = text.split(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '<' if is_angled => depth += 1,
            '>' if is_angled => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let pieces = pieces.map(|piece| piece.trim().to_owned());
    pieces.filter(|piece| !piece.is_empty()).collect()
}

fn split(text: &str) -> Vec<String> {
    split_at(text, false)
}

fn split_angles(text: &str) -> Vec<String> {
    split_at(text, true)
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    WORD.find_iter(text).map(|word| word.as_str())
}

/// Returns the names that occur in an expression.
fn words(text: &str) -> impl Iterator<Item = &str> {
    words_of(text).filter(|word| !["ceil_div", "min", "max"].contains(word))
}

/// Returns true if a text contains a name that is not the name of a member.
fn has_name(text: &str, name: &str) -> bool {
    WORD.find_iter(text).any(|word| {
        let before = text.get(..word.start()).unwrap_or_default();
        word.as_str() == name && !before.ends_with(['.', ':', '>'])
    })
}

fn has_names(text: &str) -> bool {
    words(text).next().is_some()
}

fn replace_word(text: &str, name: &str, value: &str) -> String {
    let replaced = WORD.replace_all(text, |word: &Captures| match word.get(0) {
        Some(word) if word.as_str() == name => value.to_owned(),
        word => word.map_or_else(String::new, |word| word.as_str().to_owned()),
    });
    replaced.into_owned()
}

/// Writes an expression of C++ as one of gates.yaml.
fn as_expression(text: &str) -> String {
    let text = SIZEOF.replace_all(text, |found: &Captures| {
        let [name] = found.extract().1;
        let bytes = vector_named(name).map(|(elem, count)| elem.size() * count);
        bytes.map_or_else(|| name.to_owned(), |bytes| bytes.to_string())
    });
    let text = CEIL_DIV.replace_all(&text, "ceil_div(");
    let text = CAST.replace_all(&text, "$1");
    let text = SUFFIX.replace_all(&text, "$1$2");
    let text = CEIL.replace_all(&text, "ceil_div($1,$2)");
    let text = SHIFT.replace_all(&text, |found: &Captures| {
        let [value, by] = found.extract().1.map(|number| number.parse::<u32>().ok());
        let shifted = value
            .zip(by)
            .and_then(|(value, by)| u64::from(value).checked_shl(by));
        shifted.map_or_else(String::new, |value| value.to_string())
    });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Simplifies what replacing names has left, and finds divisions that round up: `(n + 255) / 256`.
fn tidy(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MOST_NAMES {
        let bare = PLAIN.replace_all(&text, "$before$word");
        let bare = PRODUCT.replace_all(&bare, |found: &Captures| {
            let (whole, [before, one, other]) = found.extract();
            let numbers = one.parse::<u64>().ok().zip(other.parse().ok());
            let product = numbers.and_then(|(one, other)| one.checked_mul(other));
            product.map_or_else(|| whole.to_owned(), |product| format!("{before}{product}"))
        });
        let next = rounded_up(&bare).unwrap_or_else(|| bare.into_owned());
        if next == text {
            break;
        }
        text = next;
    }
    text
}

fn rounded_up(text: &str) -> Option<String> {
    text.match_indices('/').find_map(|(at, _)| {
        let head = text.get(..at)?.trim_end();
        let inner = head.strip_suffix(')')?;
        let open = begin_of(inner, ['(', ')'])?;
        let dividend = inner.get(open + 1..)?;
        let rest = text.get(at + 1..)?.trim_start();
        let length = match rest.strip_prefix('(') {
            Some(inside) => end_of(inside, "") + 2,
            None => rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len()),
        };
        let (divisor, behind) = rest.split_at_checked(length)?;
        let less = divisor
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let less = less.map_or_else(|| format!("{divisor} - 1"), |less| less.to_string());
        let ends = [
            format!(" + {divisor} - 1"),
            format!(" + {less}"),
            format!(" + ({divisor} - 1)"),
        ];
        let start = format!("{divisor} - 1 + ");
        let own = ends
            .iter()
            .find_map(|end| dividend.strip_suffix(end.as_str()));
        let own = own.or_else(|| dividend.strip_prefix(start.as_str()))?;
        let (before, own, divisor) = (inner.get(..open)?, own.trim(), divisor.trim());
        Some(format!("{before}ceil_div({own}, {divisor}){behind}"))
    })
}

/// Removes comments and strings, and joins lines that end with a backslash. All other lines stay. A string
/// says nothing about a launch.
fn without_comments(text: &str) -> String {
    UNREAD.replace_all(text, "").into_owned()
}
