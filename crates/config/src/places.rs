//! Finds where in gates.yaml something of a case was written, for problems that are found only after the file is
//! resolved.

use super::source::Source;
use super::tree::Tree;
use super::yaml::Spanned;
use model::UnitId;

/// A file of gates as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub file: String,
    pub text: String,
}

/// The owner of a key. A variant has keys of its own, or the kernel's.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    pub kernel: &'a str,
    pub variant: &'a str,
}

impl Places {
    /// Returns the line of an argument of a unit, or of its list of arguments, such as `gates.yaml:17`. Returns the
    /// file if the text does not say.
    pub fn argument(&self, unit: &UnitId, step: usize, argument: Option<usize>) -> String {
        let owner = Owner {
            kernel: &unit.kernel,
            variant: &unit.variant,
        };
        let found = argument.and_then(|at| self.step_key(owner, step, &["args"], Some(at)));
        let found = found.or_else(|| self.step_key(owner, step, &["args"], None));
        found.unwrap_or_else(|| self.file.clone())
    }

    /// Returns the line of a key such as `["tensors", "x"]`, as `gates.yaml:17`, or `None` if nobody wrote the key.
    pub fn key(&self, owner: Owner, path: &[&str]) -> Option<String> {
        self.line(owner, |node| descend(node, path))
    }

    /// Returns the line of a key of a launch. The launch is in a sequence, or it is the kernel itself. `item` is an
    /// item of a list.
    pub fn step_key(
        &self,
        owner: Owner,
        step: usize,
        path: &[&str],
        item: Option<usize>,
    ) -> Option<String> {
        self.line(owner, |node| {
            let steps = descend(node, &["sequence"]);
            let own = match steps {
                Some(steps) => nth_kernel(steps, step)?,
                None => node,
            };
            let found = descend(own, path)?;
            match item {
                Some(at) => nth(found, at),
                None => Some(found),
            }
        })
    }

    fn line(
        &self,
        owner: Owner,
        find: impl Fn(&Spanned<Tree>) -> Option<&Spanned<Tree>>,
    ) -> Option<String> {
        let source = Source::parse(&self.file, &self.text).ok()?;
        let kernel = ["kernels", owner.kernel];
        let variant = ["kernels", owner.kernel, "variants", owner.variant];
        let of = |path: &[&str]| find(descend(source.root(), path)?);
        let found = of(&variant).or_else(|| of(&kernel))?;
        Some(format!("{}:{}", self.file, found.at.line()))
    }
}

fn descend<'a>(node: &'a Spanned<Tree>, path: &[&str]) -> Option<&'a Spanned<Tree>> {
    path.iter().try_fold(node, |node, key| match &node.value {
        Tree::Map(map) => map.get(key),
        Tree::Null | Tree::Scalar(_) | Tree::List(_) => None,
    })
}

/// Returns the n-th kernel among the steps of a sequence.
fn nth_kernel(node: &Spanned<Tree>, at: usize) -> Option<&Spanned<Tree>> {
    match &node.value {
        Tree::List(items) => items
            .iter()
            .filter(|item| descend(item, &["entry"]).is_some())
            .nth(at),
        Tree::Null | Tree::Scalar(_) | Tree::Map(_) => None,
    }
}

fn nth(node: &Spanned<Tree>, at: usize) -> Option<&Spanned<Tree>> {
    match &node.value {
        Tree::List(items) => items.get(at),
        Tree::Null | Tree::Scalar(_) | Tree::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variants_own_goes_before_the_kernels() {
        let places = Places {
            file: "gates.yaml".to_owned(),
            text: "version: 1\nkernels:\n  k:\n    variants:\n      plain: {}\n      wide:\n        launch: {grid: [1]}\n    \
                   args:\n      - {tensor: x}\n      - {i32: N}\n    launch: {grid: [2]}\n"
                .to_owned(),
        };
        let unit = |variant: &str| UnitId::new("k", variant, "sm_90".parse().unwrap());
        let of = |variant, path: &[&str]| {
            let kernel = "k";
            places.key(Owner { kernel, variant }, path)
        };
        assert_eq!(of("wide", &["launch"]).as_deref(), Some("gates.yaml:7"));
        assert_eq!(of("plain", &["launch"]).as_deref(), Some("gates.yaml:11"));
        assert_eq!(of("plain", &["seeds"]), None);
        assert_eq!(places.argument(&unit("wide"), 0, Some(1)), "gates.yaml:10");
        assert_eq!(places.argument(&unit("wide"), 0, Some(2)), "gates.yaml:9");
        assert_eq!(places.argument(&unit("wide"), 0, None), "gates.yaml:9");
    }
}
