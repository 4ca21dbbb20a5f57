//! Knows the names that limits and conditions may refer to.

use super::names::suggest_metric;
use super::scope::Scope;
use super::variant::KernelVariant;
use super::yaml::{Mistake, Spanned, Suggestion, suggest};
use model::expr::{Expression, Name};
use model::{Facet, Metric, Num, Rival, Tier};
use std::collections::BTreeMap;

/// The owner of a limit, and the names that the limit may use.
pub struct Context<'a> {
    pub scope: &'a Scope<'a>,
    /// True for a limit for all shapes, which concerns only resources and knows no dimensions.
    pub unit: bool,
    pub variant: &'a str,
    /// All variants of the kernel, including the owner.
    pub siblings: &'a [KernelVariant<'a>],
    pub dims: &'a [&'a str],
    pub rivals: &'a [Rival],
    pub has_codec: bool,
    pub has_output: bool,
    pub launcher: bool,
    /// Whether the kernels are of a file that was compiled already.
    pub compiled: bool,
}

/// A metric that an expression refers to.
#[derive(PartialEq, Eq)]
pub enum Reference {
    Own(Metric),
    Sibling(Metric),
    Rival(Metric),
}

impl Reference {
    pub fn metric(&self) -> Metric {
        let (Self::Own(metric) | Self::Sibling(metric) | Self::Rival(metric)) = self;
        *metric
    }
}

impl<'a> Context<'a> {
    /// Returns the context of limits on resources that refer to nothing else.
    pub fn for_units(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            unit: true,
            variant: "",
            siblings: &[],
            dims: &[],
            rivals: &[],
            has_codec: true,
            has_output: true,
            launcher: false,
            compiled: false,
        }
    }
}

impl Context<'_> {
    /// Refuses a metric for which there will never be evidence.
    pub fn check_measured(&self, spot: &Spanned<String>, metric: Metric) -> Result<(), Mistake> {
        if self.unit && metric.facet() != Facet::Resources {
            return Err(spot
                .problem(format!("a limit on resources cannot depend on {metric}"))
                .help("put it under `conditions`"));
        }
        if metric.is_of_files() && !self.compiled {
            return Err(spot
                .problem(format!("{metric} is known of compiled files alone"))
                .help("put the limit under `binaries`"));
        }
        match metric {
            Metric::OriginalMaxErr
            | Metric::OriginalMeanErr
            | Metric::CodecMaxErr
            | Metric::CodecMeanErr
                if !self.has_codec =>
            {
                Err(spot.problem(format!("no tensor has a codec, so there is no {metric}")))
            }
            metric if metric.facet() == Facet::Correctness && !self.has_output => {
                Err(spot.problem(format!("no tensor is an output, so there is no {metric}"))
                .help("give one `role: out` or `role: inout`, and a `reference`"))
            }
            Metric::Counter(_) if self.launcher => Err(spot.problem(format!("a launcher is not simulated, so it has no {metric}"))),
            Metric::Counter(counter) if counter.tier() != Tier::Gate => Err(spot.problem(format!("{counter} is shown for information and cannot be gated"))
            .help(
                "the simulator's count of it was not confirmed against a GPU; crates/ptxsim/CALIBRATION.md lists the counters that were",
            )),
            Metric::Occupancy | Metric::BlocksPerSm if self.launcher => Err(spot.problem(format!("a launcher chooses its own blocks, so it has no {metric}"))),
            _ => Ok(()),
        }
    }

    /// Returns the metrics that the expression refers to, and the values of everything else.
    pub fn resolve_names(
        &self,
        spot: &Spanned<String>,
        expression: &Expression,
    ) -> Result<(Vec<Reference>, BTreeMap<String, Num>), Mistake> {
        let mut references = Vec::new();
        let mut constants = BTreeMap::new();
        for name in expression.names() {
            match name {
                Name::Plain(text) => {
                    if let Some(metric) = Metric::from_name(text) {
                        self.check_measured(spot, metric)?;
                        references.push(Reference::Own(metric));
                    } else if let Some(value) = self.scope.env().get(name) {
                        constants.insert(text.clone(), Num(value.as_f64()));
                    } else {
                        return Err(self.explain_unknown(spot, name));
                    }
                }
                Name::Dotted(variant, text) => {
                    self.check_sibling(spot, variant)?;
                    let metric = read_metric(spot, text)?;
                    self.check_measured(spot, metric)?;
                    references.push(Reference::Sibling(metric));
                }
                Name::Rival(rival, backend, text) => {
                    self.check_rival(spot, rival, backend)?;
                    let metric = read_metric(spot, text)?;
                    self.check_measured(spot, metric)?;
                    if !metric.has_rival() {
                        let known: Vec<_> = Metric::ALL
                            .into_iter()
                            .filter(|metric| metric.has_rival())
                            .map(Metric::name)
                            .collect();
                        let problem = format!("a rival has no {metric}");
                        return Err(spot
                            .problem(problem)
                            .help(format!("its samples give {}", known.join(", "))));
                    }
                    references.push(Reference::Rival(metric));
                }
            }
        }
        Ok((references, constants))
    }

    fn check_sibling(&self, spot: &Spanned<String>, variant: &str) -> Result<(), Mistake> {
        let Some(sibling) = self
            .siblings
            .iter()
            .find(|sibling| sibling.variant == variant)
        else {
            let known = self.siblings.iter().map(|sibling| sibling.variant);
            return Err(spot.with(variant.to_owned()).unknown("variant", known));
        };
        if variant == self.variant {
            return Err(spot
                .problem(format!("variant `{variant}` is compared with itself"))
                .help("put the limit under `gates` of the variants that it is for"));
        }
        sibling.check_measure(spot, self.scope.shape())
    }

    fn check_rival(
        &self,
        spot: &Spanned<String>,
        rival: &str,
        backend: &str,
    ) -> Result<(), Mistake> {
        let Some(known) = self.rivals.iter().find(|known| known.name == rival) else {
            let problem = spot.problem(format!("unknown rival `{rival}`"));
            return Err(match self.rivals {
                [] => problem.help(format!(
                    "declare it: rivals: {{{rival}: {{command: [...], backends: [{backend}]}}}}"
                )),
                rivals => problem.help(suggest(
                    rival,
                    rivals.iter().map(|rival| rival.name.as_str()),
                )),
            });
        };
        if !known
            .backends
            .iter()
            .any(|known_backend| known_backend == backend)
        {
            let backends = known.backends.iter().map(String::as_str);
            let problem = format!("`{backend}` is no backend of the rival `{rival}`");
            return Err(spot.problem(problem).help(suggest(backend, backends)));
        }
        Ok(())
    }

    fn explain_unknown(&self, spot: &Spanned<String>, name: &Name) -> Mistake {
        let text = name.to_string();
        if self.unit && self.dims.contains(&text.as_str()) {
            return spot.problem(format!(
                "a limit on resources holds for all shapes, and `{text}` depends on the shape"
            ));
        }
        match suggest_metric(&text, self.dims) {
            close @ Suggestion::Close(_) => spot
                .problem(format!("`{text}` is not a metric, a dimension or a macro"))
                .help(close),
            Suggestion::Known(_) => self.scope.explain_unknown(spot, name),
        }
    }
}

fn read_metric(spot: &Spanned<String>, text: &str) -> Result<Metric, Mistake> {
    Metric::from_name(text).ok_or_else(|| {
        spot.problem(format!("unknown metric `{text}`"))
            .help(suggest_metric(text, &[]))
    })
}
