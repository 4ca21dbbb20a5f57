//! Makes inputs once in the form in which a device reads them. Variants of a kernel, and processes that time it, share
//! them. They are kept in files that are named by everything that the bytes follow from, and in memory while there is
//! room.
//!
//! A file that is not what was written is made again. A file that cannot be written only costs time, so that no run
//! fails because nothing can be kept.

use super::Recent;
use super::generator::GENERATOR;
use super::inputs::{self, TensorData};
use model::{Case, Tensor};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use system::cache::{CacheDir, sealed, write_atomically};
use system::error::{Error, Result};
use system::files;

const MAGIC: sealed::Magic = b"gatekeeper inputs/2\n";

/// One tensor, and what belongs to its codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The bytes of `Tensor::span` elements. Gaps of the strides hold the `poison` of launch 1.
    pub bytes: Vec<u8>,
    /// The scales as f32, contiguous over `Codec::scale_dims`.
    pub scales: Option<Vec<u8>>,
    /// The zero points of an affine codec as i32, shaped as the scales.
    pub zero_points: Option<Vec<u8>>,
}

/// The images of every tensor that is drawn, by name.
pub type InputImages = BTreeMap<String, Arc<Image>>;

pub struct InputCache {
    dir: Option<CacheDir>,
    recent: Recent<String, Image>,
}

impl InputCache {
    /// Keeps images in `dir`, or only in memory without it. `most_bytes` bounds the memory.
    pub fn new(dir: Option<CacheDir>, most_bytes: usize) -> Self {
        Self {
            dir,
            recent: Recent::new(most_bytes),
        }
    }

    /// Returns what `inputs::generate` returns, without the parts that only a CPU needs.
    ///
    /// # Errors
    /// Fails as `inputs::generate` does.
    pub fn images(&mut self, case: &Case, seed: u64) -> Result<InputImages> {
        let mut images = InputImages::new();
        for tensor in &case.tensors {
            if let Some(image) = self.image(case, tensor, seed)? {
                images.insert(tensor.name.clone(), image);
            }
        }
        Ok(images)
    }

    /// Reads an image into memory, so that `images` finds it there. It only reads existing files: it makes nothing and
    /// reports no error.
    pub fn read_ahead(&mut self, tensor: &Tensor, seed: u64) {
        let (true, Some(dir), Ok(key)) = (tensor.is_drawn(), &self.dir, key(tensor, seed)) else {
            return;
        };
        if self.recent.get(&key).is_none()
            && let Some(image) = find(dir, &key)
        {
            let bytes = image.len();
            self.recent.put(key, image, bytes);
        }
    }

    fn image(&mut self, case: &Case, tensor: &Tensor, seed: u64) -> Result<Option<Arc<Image>>> {
        let key = key(tensor, seed)?;
        let found = tensor.is_drawn().then(|| self.recent.get(&key));
        if let Some(Some(image)) = found {
            return Ok(Some(image));
        }
        // Captured memory already has files.
        let dir = self.dir.as_ref().filter(|_| !tensor.is_captured());
        let kept = dir.filter(|_| tensor.is_drawn());
        let image = match kept.and_then(|dir| find(dir, &key)) {
            Some(image) => image,
            None => {
                let Some(data) = inputs::draw(case, tensor, seed)? else {
                    return Ok(None);
                };
                let image = Image::from(data);
                if let Some(dir) = dir {
                    let _ = write_atomically(&dir.own().join(&key), &image.sealed(&key));
                }
                image
            }
        };
        let bytes = image.len();
        Ok(Some(self.recent.put(key, image, bytes)))
    }
}

/// Returns the file name of one tensor. The role is part of it, because a role can be refused.
fn key(tensor: &Tensor, seed: u64) -> Result<String> {
    #[derive(Serialize)]
    struct TensorKey<'a> {
        format: &'a str,
        generator: &'a str,
        tensor: &'a Tensor,
        seed: u64,
    }
    let key = TensorKey {
        format: std::str::from_utf8(MAGIC).unwrap_or_default(),
        generator: GENERATOR,
        tensor,
        seed,
    };
    let text = serde_json::to_vec(&key).map_err(|error| {
        Error::environment(format!("{}: {error}", tensor.name)).caused_by(error)
    })?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

fn find(dir: &CacheDir, key: &str) -> Option<Image> {
    dir.places(key)
        .find_map(|file| read(&file, key).inspect(|_| dir.touch(&file)))
}

fn read(file: &Path, key: &str) -> Option<Image> {
    Image::parse(files::read(file, files::made()).ok()?, key)
}

impl Image {
    fn len(&self) -> usize {
        let size = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        self.bytes.len() + size(&self.scales) + size(&self.zero_points)
    }

    /// Returns the image with its key, because another image is sealed as well. A flag distinguishes absent parts from
    /// empty ones.
    fn sealed(&self, key: &str) -> Vec<u8> {
        let optional = |part: &Option<Vec<u8>>| u8::from(part.is_some());
        let present = [optional(&self.scales), optional(&self.zero_points)];
        let bytes = |part: &'_ Option<Vec<u8>>| part.clone().unwrap_or_default();
        let (scales, zero_points) = (bytes(&self.scales), bytes(&self.zero_points));
        let parts: [&[u8]; 5] = [key.as_bytes(), &present, &self.bytes, &scales, &zero_points];
        sealed::seal(MAGIC, parts)
    }

    /// Parses an image. The elements stay in the memory that they were read into, because fresh memory costs more than
    /// moving them.
    fn parse(mut bytes: Vec<u8>, key: &str) -> Option<Self> {
        let mut rest = sealed::open(MAGIC, &bytes)?;
        if sealed::part(&mut rest)? != key.as_bytes() {
            return None;
        }
        let present = sealed::part(&mut rest)?;
        let elements = sealed::part(&mut rest)?.len();
        let end = bytes.len() - rest.len();
        let mut optional = |which| {
            let part = sealed::part(&mut rest)?;
            Some((present.get(which) == Some(&1)).then(|| part.to_vec()))
        };
        let (scales, zero_points) = (optional(0)?, optional(1)?);
        if !rest.is_empty() {
            return None;
        }
        bytes.truncate(end);
        bytes.drain(..end - elements);
        Some(Self {
            bytes,
            scales,
            zero_points,
        })
    }
}

impl From<TensorData> for Image {
    fn from(data: TensorData) -> Self {
        let scales = data.scales.map(|scales| {
            scales
                .iter()
                .flat_map(|scale| scale.to_le_bytes())
                .collect()
        });
        let zero_points = data
            .zero_points
            .map(|zeros| zeros.iter().flat_map(|zero| zero.to_le_bytes()).collect());
        Self {
            bytes: data.bytes,
            scales,
            zero_points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{case, input, output};
    use model::{Codec, CodecScheme, ElemType, Role};
    use std::path::PathBuf;

    const ROOM: usize = 1 << 20;

    fn coded() -> Case {
        let mut x = input("x", ElemType::U8, &[4, 8]);
        x.codec = Some(Codec {
            scheme: CodecScheme::Affine { low: 0, high: 255 },
            block: vec![1, 8],
        });
        let mut z = input("z", ElemType::F16, &[3, 5]);
        z.strides = Some(vec![8, 1]);
        case(vec![x, z, output("y", ElemType::F32, &[4, 8])])
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn generated(case: &Case, seed: u64) -> InputImages {
        let inputs = inputs::generate(case, seed).unwrap();
        inputs
            .tensors
            .into_iter()
            .map(|(name, data)| (name, Arc::new(Image::from(data))))
            .collect()
    }

    #[test]
    fn files_and_memory_equal_the_generator() {
        let dir = tempfile::tempdir().unwrap();
        let cache = || InputCache::new(Some(dir.path().to_owned().into()), ROOM);
        let mut first = cache();
        for seed in [1, 2] {
            let want = generated(&coded(), seed);
            assert!(want["x"].zero_points.is_some() && want["z"].scales.is_none());
            assert_eq!(first.images(&coded(), seed).unwrap(), want);
            assert_eq!(first.images(&coded(), seed).unwrap(), want, "from memory");
            assert_eq!(cache().images(&coded(), seed).unwrap(), want, "from files");
            let nowhere = &mut InputCache::new(None, 0);
            assert_eq!(nowhere.images(&coded(), seed).unwrap(), want);
        }
        assert_eq!(files(dir.path()).len(), 4, "two tensors, two seeds");
    }

    #[test]
    fn a_hit_is_not_made_again_and_a_damaged_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let cache = || InputCache::new(Some(dir.path().to_owned().into()), ROOM);
        let want = generated(&coded(), 1);
        cache().images(&coded(), 1).unwrap();
        // Only the file has this value.
        let key = key(&coded().tensors[0], 1).unwrap();
        let file = dir.path().join(&key);
        let mut planted = Image::clone(&want["x"]);
        planted.bytes[3] ^= 1;
        std::fs::write(&file, planted.sealed(&key)).unwrap();
        assert_eq!(*cache().images(&coded(), 1).unwrap()["x"], planted);

        let whole = planted.sealed(&key);
        for at in 0..whole.len() {
            assert!(
                Image::parse(whole[..at].to_vec(), &key).is_none(),
                "cut at {at}"
            );
            let mut bad = whole.clone();
            bad[at] ^= 0x10;
            assert!(Image::parse(bad, &key).is_none(), "changed at {at}");
        }
        assert!(
            Image::parse(whole.clone(), "other").is_none(),
            "of another tensor"
        );
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(cache().images(&coded(), 1).unwrap(), want);
        assert_eq!(read(&file, &key).as_ref(), Some(&*want["x"]), "and mended");
    }

    #[test]
    fn reading_ahead_takes_existing_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let tensor = &coded().tensors[0];
        let mut cache = InputCache::new(Some(dir.path().to_owned().into()), ROOM);
        cache.read_ahead(tensor, 1);
        assert!(
            files(dir.path()).is_empty() && cache.recent.get(&key(tensor, 1).unwrap()).is_none()
        );

        let want = InputCache::new(Some(dir.path().to_owned().into()), ROOM)
            .images(&coded(), 1)
            .unwrap();
        let file = dir.path().join(key(tensor, 1).unwrap());
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[1..]).unwrap();
        cache.read_ahead(tensor, 1);
        assert!(
            cache.recent.get(&key(tensor, 1).unwrap()).is_none(),
            "damaged"
        );
        std::fs::write(&file, whole).unwrap();
        cache.read_ahead(tensor, 1);
        assert_eq!(
            cache.recent.get(&key(tensor, 1).unwrap()).as_ref(),
            Some(&want["x"])
        );
    }

    #[test]
    fn whatever_the_bytes_follow_from_is_in_the_name() {
        let tensor = input("x", ElemType::F16, &[4, 8]);
        let changed = |change: fn(&mut Tensor)| {
            let mut tensor = tensor.clone();
            change(&mut tensor);
            key(&tensor, 1).unwrap()
        };
        let mut names = vec![
            key(&tensor, 1).unwrap(),
            key(&tensor, 2).unwrap(),
            changed(|x| x.name = "z".into()),
            changed(|x| x.role = Role::Inout),
            changed(|x| x.elem = ElemType::Bf16),
            changed(|x| x.dims = vec![8, 4]),
            changed(|x| x.strides = Some(vec![16, 1])),
            changed(|x| x.fill = Some(model::Fill::Iota)),
            changed(|x| x.codec = coded().tensors[0].codec.clone()),
        ];
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn rejects_invalid_tensors_though_their_inputs_are_cached() {
        let mut cache = InputCache::new(None, ROOM);
        cache.images(&coded(), 1).unwrap();
        let mut overlapping = coded();
        overlapping.tensors[2].strides = Some(vec![1, 1]);
        assert!(cache.images(&overlapping, 1).is_err());
        let mut written = coded();
        written.tensors[0].role = Role::Inout;
        assert!(cache.images(&written, 1).is_err());
    }

    #[test]
    fn a_place_that_cannot_be_written_costs_nothing_but_time() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let images = InputCache::new(Some(gone.into()), ROOM)
            .images(&coded(), 1)
            .unwrap();
        assert_eq!(images, generated(&coded(), 1));
    }
}
