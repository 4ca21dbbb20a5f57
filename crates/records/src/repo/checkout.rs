//! Finds the names of a checkout: its repository and its branch. They appear in titles alone; no verdict and no key
//! depends on them.

use super::git::git;
use super::worktree::top;
use model::Checkout;
use std::path::Path;

/// Returns the names from CI's variables, or else those that git knows. CI checks out a commit without its branch.
pub fn checkout(root: &Path, variable: impl Fn(&str) -> Option<String>) -> Checkout {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let top = top(root);
    let at = top.as_deref().unwrap_or(root);
    let of_origin = || repository(&git(at, &["config", "--get", "remote.origin.url"]).ok()?);
    let of_directory = || {
        let real = at.canonicalize().ok()?;
        Some(real.file_name()?.to_string_lossy().into_owned())
    };
    let branch = || git(at, &["symbolic-ref", "--quiet", "--short", "HEAD"]).ok();
    Checkout {
        repository: given("GITHUB_REPOSITORY")
            .and_then(|name| last_segments(&name))
            .or_else(of_origin)
            .or_else(of_directory),
        branch: given("GITHUB_HEAD_REF")
            .or_else(|| given("GITHUB_REF_NAME"))
            .or_else(branch)
            .filter(|name| !name.is_empty()),
    }
}

/// Returns `org/repo` from an address, without host, user, password and query. Returns `None` if it is unclear which
/// part is which.
fn repository(url: &str) -> Option<String> {
    if let Some((scheme, rest)) = url.split_once("://") {
        if scheme == "file" {
            return last_segment(rest);
        }
        let (_, path) = rest.split_once('/')?;
        let path = path.split(['?', '#']).next()?;
        // A slash within a password would end the host too early.
        return if rest.rfind('@') > rest.find('/') {
            None
        } else {
            last_segments(path)
        };
    }
    // `git@host:org/repo.git` is an address; with a slash before the colon it is a path.
    match url.split_once(':') {
        Some((host, path)) if !host.contains('/') => last_segments(path),
        _ => last_segment(url),
    }
}

/// Returns the last two segments of a path, or the only one.
fn last_segments(path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    let last = last_segment(path)?;
    let above = path.rsplit('/').nth(1).filter(|name| is_plain(name));
    Some(above.map_or_else(|| last.clone(), |above| format!("{above}/{last}")))
}

fn last_segment(path: &str) -> Option<String> {
    let last = path.trim_end_matches('/').rsplit('/').next()?;
    let last = last.strip_suffix(".git").unwrap_or(last);
    is_plain(last).then(|| last.to_owned())
}

/// Returns true if hosts allow the segment in names. `.` and `..` are refused, and so is any part of an address.
fn is_plain(segment: &str) -> bool {
    segment.contains(|c: char| c.is_alphanumeric())
        && segment
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_the_name_of_a_repository_and_nothing_else_of_it() {
        for (url, name) in [
            ("https://user:token@host/org/repo.git", Some("org/repo")),
            ("https://token@host:8443/org/repo.git/", Some("org/repo")),
            ("https://host/group/sub/repo", Some("sub/repo")),
            ("https://host/repo.git?token=secret#part", Some("repo")),
            ("https://host/org/repo?private=a/b/c", Some("org/repo")),
            ("ssh://git@host:22/org/repo.git", Some("org/repo")),
            ("git@host:org/repo.git", Some("org/repo")),
            ("host:repo", Some("repo")),
            ("/srv/git/repo.git", Some("repo")),
            ("../kernels", Some("kernels")),
            ("file:///home/someone/repo.git", Some("repo")),
            // These passwords contain characters that have another meaning in an address.
            ("https://user:to/ken@host/org/repo.git", None),
            ("https://user:pa?ss/word@host/org/repo", None),
            ("https://user:pa#ss/word@host/org/repo", None),
            ("https://host/org/user:token@repo", None),
            ("https://host", None),
            ("https://host/", None),
            ("https://host/..", None),
            ("<script>", None),
            ("", None),
        ] {
            assert_eq!(repository(url).as_deref(), name, "{url}");
        }
    }
}
