//! Files of the cache that can tell whether they are whole. Each begins with the name of its kind and a digest of the
//! rest, followed by parts that state their length.

/// The first bytes of a file, which name its format and version.
pub type Magic = &'static [u8];

const DIGEST: usize = blake3::OUT_LEN;

/// Seals parts: the magic bytes, a digest, and each part after its length as a little-endian u64. The digest covers
/// the lengths and the parts.
pub fn seal<'a>(magic: Magic, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = [magic, &[0; DIGEST]].concat();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    let (head, body) = bytes.split_at_mut(magic.len() + DIGEST);
    head[magic.len()..].copy_from_slice(digest(body).as_bytes());
    bytes
}

/// Opens a sealed value, whose parts `part` reads. Returns `None` if it is not exactly that.
pub fn open(magic: Magic, bytes: &[u8]) -> Option<&[u8]> {
    let (claimed, rest) = bytes.strip_prefix(magic)?.split_at_checked(DIGEST)?;
    (digest(rest).as_bytes() == claimed).then_some(rest)
}

/// Reads a part: eight bytes of length, little-endian, and as many bytes.
pub fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

fn digest(body: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update_rayon(body).finalize()
}
