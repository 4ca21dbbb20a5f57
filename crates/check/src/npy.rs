//! Writes arrays in the file format of numpy.

use super::Values;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes an array in the .npy format, version 1.0 (NEP 1): `<f4`, `<f8` or `<i8`, in C order.
///
/// # Errors
/// Fails with I/O errors, and with `InvalidInput` if the dimensions do not have as many elements as there are values.
pub fn write_npy(path: &Path, dims: &[usize], values: &Values) -> io::Result<()> {
    if dims.iter().product::<usize>() != values.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} values for dimensions {dims:?}", values.len()),
        ));
    }
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&header(dims, values))?;
    match values {
        Values::F32(values) => values
            .iter()
            .try_for_each(|value| file.write_all(&value.to_le_bytes()))?,
        Values::F64(values) => values
            .iter()
            .try_for_each(|value| file.write_all(&value.to_le_bytes()))?,
        Values::I64(values) => values
            .iter()
            .try_for_each(|value| file.write_all(&value.to_le_bytes()))?,
    }
    file.flush()
}

fn header(dims: &[usize], values: &Values) -> Vec<u8> {
    let kind = match values {
        Values::F32(_) => "<f4",
        Values::F64(_) => "<f8",
        Values::I64(_) => "<i8",
    };
    // The header has a Python tuple with a comma after each number, so that one dimension is still a tuple.
    let shape: String = dims.iter().map(|dim| format!("{dim},")).collect();
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes. With the newline, the header ends on a multiple of 64.
    let padding = 63 - (10 + text.len()) % 64;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend_from_slice(&(text.len() as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_numpy_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        write_npy(&path, &[2, 1], &Values::F32(vec![1.0, -2.5])).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (head, data) = bytes.split_at(128);
        assert_eq!(data, [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
        assert_eq!(head[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&head[10..]).unwrap();
        assert_eq!(
            text.trim_end(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,1,), }"
        );
        assert!(text.ends_with(" \n"));
    }

    #[test]
    fn shapes_of_any_rank_and_a_wrong_one() {
        for (dims, shape) in [(&[][..], "()"), (&[3], "(3,)"), (&[1, 1, 3], "(1,1,3,)")] {
            let values = Values::I64(vec![7; dims.iter().product()]);
            let header = header(dims, &values);
            assert_eq!(header.len() % 64, 0);
            let text = String::from_utf8_lossy(&header).into_owned();
            assert!(
                text.contains(&format!("'shape': {shape}, ")) && text.contains("'<i8'"),
                "{text}"
            );
        }
        let error = write_npy(Path::new("/nowhere"), &[4], &Values::F32(vec![1.0])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
