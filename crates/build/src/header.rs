//! Recognises headers that are not the user's, by their names.

/// The toolkit's own headers, as everything here names them.
pub const TOOLKIT: &str = "cuda/include/";

/// Returns true if a file that the line tables of a compilation name is a header of the toolkit or of the operating
/// system.
pub fn is_of_system(file: &str) -> bool {
    file.starts_with(TOOLKIT) || file.starts_with("/usr/")
}

/// Returns the name of a header of the toolkit, relative to the toolkit's directory of headers.
pub fn in_toolkit(file: &str) -> Option<&str> {
    file.strip_prefix(TOOLKIT)
}
