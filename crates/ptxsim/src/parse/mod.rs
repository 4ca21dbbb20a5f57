//! Reads PTX text into an `ast::Module`. It knows the grammar (PTX ISA 4 and 5), not the instruction set. Any text at
//! all gives a module or a message with line and column. Nothing here panics, and nesting costs no stack.

pub mod ast;
pub mod lines;
mod scan;
mod statement;
mod tokens;

pub use scan::ParseError;
pub use tokens::{Token, code_tokens};

use ast::*;
use lines::{At, Call, LineId, LineReader};
use scan::{InlineAsm, Scanner, refuse};
use std::sync::Arc;

/// The number of registers of a range, at most. No compiler writes as many, and a text that does is refused.
const MAX_REGISTERS: u32 = 1 << 20;

/// Reads a module. Fails on text that is no PTX, with the first place that cannot be read.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser::new(text);
    let mut module = Module::default();
    while parser.s.peek()?.is_some() {
        parser.top_level(&mut module)?;
    }
    if module.target.is_empty() {
        return parser.s.error("no .target: this is not a PTX module");
    }
    module.lines = Arc::new(parser.reading.lines);
    Ok(module)
}

struct Parser<'a> {
    s: Scanner<'a>,
    loc: LineId,
    /// The last block of inline assembly that has a `.loc`.
    placed: Option<InlineAsm>,
    reading: LineReader<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            s: Scanner::new(text),
            loc: LineId::default(),
            placed: None,
            reading: LineReader::default(),
        }
    }

    /// Reads a directive of the module, a function or a variable.
    fn top_level(&mut self, module: &mut Module) -> Result<(), ParseError> {
        self.s.skip()?;
        let start = self.s;
        match self.s.directive()? {
            ".version" => {
                let pos = self.s.pos();
                module.version = match self.s.number()? {
                    Number::F64(v) if (1.0..100.0).contains(&v) => {
                        (v as u32, ((v - v.floor()) * 10.0).round() as u32)
                    }
                    Number::Int(v) if v < 100 => (v as u32, 0),
                    _ => {
                        return refuse(pos, "this is not a PTX version");
                    }
                };
            }
            ".target" => {
                module.target = self.s.name()?.to_string();
                while self.s.take_if(b',')? {
                    self.s.name()?;
                }
            }
            ".address_size" => {
                self.integer(|v| v == 64, "only 64-bit addresses are supported")?;
            }
            ".file" => {
                let index = self.integer(|_| true, "a file number must be an integer")?;
                let name = self.s.string()?.to_string();
                while self.s.take_if(b',')? {
                    self.s.number()?;
                }
                self.reading.lines.files.insert(index as u32, name);
            }
            ".section" => {
                self.s.dotted().or_else(|_| self.s.name())?;
                self.s.expect(b'{')?;
                self.s.skip_block()?;
            }
            ".pragma" | ".alias" => self.s.skip_to_semicolon()?,
            ".loc" => self.loc()?,
            ".func" | ".entry" | ".visible" | ".extern" | ".weak" | ".common" | ".global"
            | ".const" | ".shared" => {
                self.s = start;
                self.declaration(module)?;
            }
            other => {
                return refuse(
                    start.pos(),
                    format!("directive `{other}` is not allowed here"),
                );
            }
        }
        Ok(())
    }

    /// Reads a function or a variable, with its linkage.
    fn declaration(&mut self, module: &mut Module) -> Result<(), ParseError> {
        let mut is_extern = false;
        loop {
            self.s.skip()?;
            let start = self.s;
            match self.s.directive()? {
                ".visible" | ".weak" | ".common" => {}
                ".extern" => is_extern = true,
                ".func" => {
                    let function = self.function(false)?;
                    module.functions.push(function);
                    return Ok(());
                }
                ".entry" => {
                    let function = self.function(true)?;
                    module.functions.push(function);
                    return Ok(());
                }
                _ => {
                    self.s = start;
                    for mut variable in self.variables()? {
                        variable.is_extern = is_extern;
                        module.variables.push(variable);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Reads a function from its name on, with its body if it has one.
    fn function(&mut self, is_entry: bool) -> Result<Function, ParseError> {
        let returns = if !is_entry && self.s.peek()? == Some(b'(') {
            self.params()?
        } else {
            Vec::new()
        };
        let pos = self.s.pos();
        let name = self.s.name()?.to_string();
        let params = if self.s.peek()? == Some(b'(') {
            self.params()?
        } else {
            Vec::new()
        };
        let mut function = Function {
            name,
            is_entry,
            body: None,
            params,
            returns,
            max_threads: None,
            required_threads: None,
            min_blocks: None,
            max_registers: None,
            clusters: Clusters::default(),
            pos,
        };
        loop {
            match self.s.peek()? {
                Some(b';') => {
                    self.s.expect(b';')?;
                    return Ok(function);
                }
                Some(b'{') => {
                    self.s.expect(b'{')?;
                    self.loc = LineId::default();
                    self.reading.function();
                    function.body = Some(self.body()?);
                    return Ok(function);
                }
                Some(b'.') => {
                    let pos = self.s.pos();
                    match self.s.directive()? {
                        ".maxntid" => function.max_threads = Some(self.three()?),
                        ".reqntid" => function.required_threads = Some(self.three()?),
                        ".minnctapersm" => function.min_blocks = self.count()?,
                        ".maxnreg" => function.max_registers = self.count()?,
                        ".maxnctapersm" => {
                            self.s.number()?;
                        }
                        ".noreturn" => {}
                        ".explicitcluster" => function.clusters.explicit = true,
                        word @ ".blocksareclusters" => {
                            let refused = &mut function.clusters.refused;
                            refused.get_or_insert((word.to_string(), pos));
                        }
                        ".reqnctapercluster" => function.clusters.required = Some(self.three()?),
                        ".maxclusterrank" => function.clusters.most = self.count()?,
                        ".pragma" => self.s.skip_to_semicolon()?,
                        other => {
                            return refuse(
                                pos,
                                format!("`{other}` of a function is not supported"),
                            );
                        }
                    }
                }
                _ => {
                    return self
                        .s
                        .error(format!("expected a body, found {}", self.s.describe()));
                }
            }
        }
    }

    /// Reads a number as a count. Returns `None` if it is no integer, or does not fit in 32 bits.
    fn count(&mut self) -> Result<Option<u32>, ParseError> {
        let number = self.s.number()?;
        Ok(match number {
            Number::Int(n) => u32::try_from(n).ok(),
            _ => None,
        })
    }

    /// Reads an integer for which `is_allowed` is true. Everything else is an error with this message.
    fn integer(
        &mut self,
        is_allowed: impl Fn(u64) -> bool,
        message: impl Into<String>,
    ) -> Result<u64, ParseError> {
        let pos = self.s.pos();
        match self.s.number()? {
            Number::Int(v) if is_allowed(v) => Ok(v),
            _ => refuse(pos, message),
        }
    }

    /// Reads one to three numbers of threads or blocks.
    fn three(&mut self) -> Result<[u32; 3], ParseError> {
        let mut dims = [1; 3];
        for (i, dim) in dims.iter_mut().enumerate() {
            if i > 0 && !self.s.take_if(b',')? {
                break;
            }
            *dim = self.integer(|v| v <= 1024, "a block has at most 1024 threads")? as u32;
        }
        Ok(dims)
    }

    /// Reads a list of parameters in parentheses.
    fn params(&mut self) -> Result<Vec<Var>, ParseError> {
        self.s.expect(b'(')?;
        let mut params = Vec::new();
        while !self.s.take_if(b')')? {
            if !params.is_empty() {
                self.s.expect(b',')?;
            }
            params.push(self.one_variable()?);
        }
        Ok(params)
    }

    /// Reads variables, such as `.global .align 4 .b8 x[16] = {...}, y;`.
    fn variables(&mut self) -> Result<Vec<Var>, ParseError> {
        let first = self.one_variable()?;
        let template = first.clone();
        let mut all = vec![first];
        while self.s.take_if(b',')? {
            let mut next = template.clone();
            self.declarator(&mut next)?;
            all.push(next);
        }
        self.s.expect(b';')?;
        Ok(all)
    }

    /// Reads a variable, from its state space to its initialiser.
    fn one_variable(&mut self) -> Result<Var, ParseError> {
        let mut var = Var {
            space: Space::Reg,
            align: None,
            ty: Ty::B32,
            vector: 1,
            name: String::new(),
            elements: 1,
            is_extern: false,
            init: Vec::new(),
            count: None,
            pos: self.s.pos(),
        };
        let mut has_type = false;
        while self.s.peek()? == Some(b'.') {
            let pos = self.s.pos();
            match self.s.directive()? {
                ".align" => var.align = Some(self.alignment(pos)?),
                ".ptr" => self.pointee()?,
                ".v2" => var.vector = 2,
                ".v4" => var.vector = 4,
                // The host can reach this memory, too. To a kernel it is a variable like any other.
                ".attribute" if self.s.peek()? == Some(b'(') => {
                    self.s.expect(b'(')?;
                    let attribute = self.s.directive()?;
                    if attribute != ".managed" {
                        return refuse(
                            pos,
                            format!("the attribute `{attribute}` is not supported"),
                        );
                    }
                    self.s.expect(b')')?;
                }
                ".attribute" | ".noalias" => {
                    if self.s.peek()? == Some(b'(') {
                        return refuse(pos, "attributes of variables are not supported");
                    }
                }
                word => {
                    let name = word.trim_start_matches('.');
                    match (Space::parse(name), Ty::parse(name)) {
                        (Some(space), _) => var.space = space,
                        (_, Some(ty)) => (var.ty, has_type) = (ty, true),
                        _ => {
                            let what = format!("`{word}` is not a supported type or state space");
                            return refuse(pos, what);
                        }
                    }
                }
            }
        }
        if !has_type {
            return self.s.error("a variable needs a type");
        }
        self.declarator(&mut var)?;
        Ok(var)
    }

    fn alignment(&mut self, pos: Pos) -> Result<u32, ParseError> {
        match self.s.number()? {
            Number::Int(v) if v.is_power_of_two() && v <= 4096 => Ok(v as u32),
            _ => refuse(pos, "an alignment must be a power of two up to 4096"),
        }
    }

    /// Reads what stands behind `.ptr`: the space and the alignment of what a parameter points to (PTX ISA 5.1.6.3). They
    /// say nothing of the parameter itself, and a kernel that breaks them faults where it accesses the memory.
    fn pointee(&mut self) -> Result<(), ParseError> {
        while self.s.peek()? == Some(b'.') {
            let start = self.s;
            let pos = self.s.pos();
            match self.s.directive()? {
                ".global" | ".shared" | ".local" | ".const" => {}
                ".align" => drop(self.alignment(pos)?),
                _ => {
                    self.s = start;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the name of a variable, its sizes and its initialiser.
    fn declarator(&mut self, var: &mut Var) -> Result<(), ParseError> {
        var.pos = self.s.pos();
        var.name = self.s.name()?.to_string();
        var.elements = 1;
        var.count = None;
        var.init.clear();
        if self.s.take_if(b'<')? {
            let what = format!("a register range has at most {MAX_REGISTERS} registers");
            let count = self.integer(|v| v <= u64::from(MAX_REGISTERS), what)?;
            var.count = Some(count as u32);
            self.s.expect(b'>')?;
        }
        while self.s.take_if(b'[')? {
            if self.s.take_if(b']')? {
                var.elements = 0;
                continue;
            }
            let pos = self.s.pos();
            let n = self.integer(|_| true, "an array's size must be an integer")?;
            let Some(elements) = var.elements.checked_mul(n).filter(|&e| e < 1 << 40) else {
                return refuse(pos, "this array is too large");
            };
            var.elements = elements;
            self.s.expect(b']')?;
        }
        if self.s.take_if(b'=')? {
            self.initialiser(&mut var.init)?;
        }
        Ok(())
    }

    /// Reads an initialiser. Its nested lists become one.
    fn initialiser(&mut self, init: &mut Vec<Init>) -> Result<(), ParseError> {
        let mut depth = 0_u32;
        loop {
            if self.s.take_if(b'{')? {
                depth += 1;
                continue;
            }
            if self.s.peek()? != Some(b'}') {
                init.push(self.init_element()?);
            }
            while depth > 0 && self.s.take_if(b'}')? {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(());
            }
            self.s.expect(b',')?;
        }
    }

    fn init_element(&mut self) -> Result<Init, ParseError> {
        if self.s.starts_number()? {
            return Ok(Init::Number(self.s.number()?));
        }
        let mut name = self.s.name()?;
        let generic = name == "generic";
        if generic {
            self.s.expect(b'(')?;
            name = self.s.name()?;
            self.s.expect(b')')?;
        }
        let offset = self.optional_offset()?;
        Ok(Init::Symbol {
            name: name.to_string(),
            offset,
            generic,
        })
    }

    /// Reads the offsets behind a name, and returns their sum.
    fn optional_offset(&mut self) -> Result<i64, ParseError> {
        let mut total = 0_i64;
        while matches!(self.s.peek()?, Some(b'+' | b'-')) {
            self.s.take_if(b'+')?;
            let offset = self.integer(|_| true, "an offset must be an integer")?;
            total = total.wrapping_add(offset as i64);
        }
        Ok(total)
    }

    /// Reads a `.loc`, such as `.loc 1 24 5` with `, function_name $L__info_string0+12, inlined_at 1 18 3`.
    ///
    /// LLVM's assembly parser (seen in Triton 3.9) counts the lines of an inline text from the line of the statement:
    /// its fifth instruction seems to be four lines further down in the source. So only the first `.loc` of such a text
    /// counts, which is the statement's.
    fn loc(&mut self) -> Result<(), ParseError> {
        let block = self.s.inline_asm();
        let is_counted = block.is_some() && block == self.placed;
        self.placed = block;
        let at = self.at()?;
        let (mut callee, mut inlined_at) = (("", 0), None);
        while self.s.take_if(b',')? {
            let pos = self.s.pos();
            match self.s.name()? {
                "function_name" => callee = (self.s.name()?, self.optional_offset()?),
                "inlined_at" => inlined_at = Some(self.at()?),
                other => {
                    return refuse(pos, format!("`{other}` is not part of a .loc"));
                }
            }
        }
        if is_counted {
            return Ok(());
        }
        let call = inlined_at.map(|at| Call { at, callee });
        self.loc = self.reading.loc(at, call);
        Ok(())
    }

    /// Reads a file, a line and a column.
    fn at(&mut self) -> Result<At, ParseError> {
        Ok(At {
            file: self.small()?,
            line: self.small()?,
            column: self.small()?,
        })
    }

    /// Reads an integer of 32 bits.
    fn small(&mut self) -> Result<u32, ParseError> {
        let fits = |v| v <= u64::from(u32::MAX);
        Ok(self.integer(fits, "expected a small whole number")? as u32)
    }
}

#[cfg(test)]
mod tests;
