//! Lists the kernels of PTX as an assembler makes them, which is what a driver would do if there is no machine code.

use binary::{Format, Listing, Ptx, PtxText};
use build::assemble::Assembler;
use model::Arch;
use rayon::prelude::*;
use system::error::{Error, Result};

/// The assembler and the target by which PTX becomes machine code.
pub struct Assembly<'a> {
    pub assembler: Assembler<'a>,
    /// The target, or `None` for the target that each PTX names itself.
    pub arch: Option<Arch>,
    pub refused: Refused,
}

/// The treatment of PTX that the assembler refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The listing of the file fails.
    Error,
    /// It is listed with the assembler's message, for a verdict on it.
    Listed,
}

impl Assembly<'_> {
    /// Lists the kernels of a file's PTX, in the file's order. `at` names the file in an error.
    pub fn list_all(&self, format: Format, texts: &[PtxText], at: &str) -> Result<Listing> {
        let listed: Vec<Result<Listing>> =
            texts.par_iter().map(|text| self.list(text, at)).collect();
        let mut all = Listing::new(format);
        for (ptx, listing) in texts.iter().zip(listed) {
            match &ptx.member {
                Some(member) => all.add_member(member, listing?),
                None => all.append(listing?),
            }
        }
        Ok(all)
    }

    fn list(&self, ptx: &PtxText, at: &str) -> Result<Listing> {
        let at = match &ptx.member {
            Some(member) => format!("{at}: {}", member.replace(char::is_control, "\u{fffd}")),
            None => at.to_owned(),
        };
        let arch = self.arch.unwrap_or(ptx.arch);
        if !arch.takes_ptx_for(ptx.arch) {
            return Err(Error::usage(format!(
                "PTX for {} cannot be assembled for {arch}",
                ptx.arch
            ))
            .at(at)
            .help(format!(
                "name --arch {}, or leave --arch out: each PTX is then assembled for its own target",
                ptx.arch
            )));
        }
        // Text in a fat binary ends with zeros.
        let end = ptx.text.iter().rposition(|text| *text != 0);
        let text = &ptx.text[..end.map_or(0, |end| end + 1)];
        let made = self.assembler.assemble(text, arch);
        let refused = match made.map_err(|error| error.at(&at))? {
            Ok(cubin) => {
                let listing = binary::read(&cubin);
                return listing.map_err(|error| Error::environment(error.to_string()).at(&at));
            }
            Err(refused) => refused,
        };
        let kernels = binary::ptx_kernels(text);
        // Without a name there is nothing that a verdict could be about.
        if self.refused == Refused::Error || kernels.is_empty() {
            return Err(refused.at(&at));
        }
        let mut listing = Listing::new(Format::Ptx);
        listing.ptx.push(Ptx {
            arch,
            kernels,
            member: None,
            refused: Some(refused.diagnostic().message.clone()),
        });
        Ok(listing)
    }
}
