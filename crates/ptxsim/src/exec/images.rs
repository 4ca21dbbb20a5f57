//! Texture fetches and surface accesses of a warp (`image` has the formulas). Texels lie in global memory, so the
//! checks of global memory see which threads read and write them. Their counts were never compared with those of
//! hardware (`doubt`).

use super::access::address::{Site, addresses};
use super::access::transfer::{Transfer, deposit};
use super::access::{LaneAccess, Target};
use super::state::*;
use crate::image::{
    Bound, Filter, Image, Layout, Outside, Sampler, along, corners, footprint, inside,
};
use crate::isa::*;
use crate::memory::Origin;
use crate::regs::{LANES, lanes};
use crate::report::*;

/// The number of a texel along each axis.
type TexelIndex = [i64; 3];

impl Machine<'_> {
    /// Executes a texture fetch, lane by lane.
    pub fn fetch<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        t: &TextureFetch,
        s: Site,
    ) -> Run<()> {
        self.count_request(s);
        let handles = addresses(&w.regs, t.access.address, 0);
        for l in lanes(s.mask) {
            let (one, handle) = (s.only(l), handles[l]);
            let (image, bound) = self.image((one, handle))?;
            let Bound::Texture(sampler) = bound else {
                let what = format!("a texture fetch from the surface of {}", self.named(&image));
                return one.refuse_at(FaultKind::Undefined, handle, what);
            };
            self.check_fetch(t, &image, &sampler, (one, handle))?;
            let coordinate = |n: usize| match t.at.get(n) {
                Some(r) => w.regs.r32[*r as usize].0[l],
                None => 0,
            };
            let raw: [u32; 3] = std::array::from_fn(coordinate);
            // The layer is clamped, and the coordinates are what the sampler says.
            let layer = t.layer.map_or(0, |r| w.regs.r32[r as usize].0[l]);
            let layer = layer.min(image.layers - 1);
            let mut reader = TexelReader {
                machine: self,
                b,
                w,
                site: s,
                lane: l,
                image,
                layer,
                outside: sampler.outside,
                float: t.float,
                origin: None,
            };
            let found = match (t.fetch, t.coordinates) {
                (Fetch::Gather(channel), _) => {
                    let at = gathered(raw, &image, &sampler);
                    let mut four = [0; 4];
                    for (to, place) in four.iter_mut().zip(at) {
                        let texel = reader.texel::<CHECKS>(place)?;
                        *to = reader.bits(&texel, channel);
                    }
                    four
                }
                (_, Coordinates::Integer) => {
                    let place = raw.map(|x| i64::from(x as i32));
                    if image.layout == Layout::Linear {
                        reader.machine.in_linear(&image, place[0], (one, handle))?;
                    }
                    reader.nearest::<CHECKS>(place)?
                }
                (_, Coordinates::Float) => {
                    let axis = |n: usize| {
                        if n < usize::from(image.geometry.rank) {
                            along(f32::from_bits(raw[n]), image.extents[n], &sampler)
                        } else {
                            [(0, crate::image::ONE), (0, 0)]
                        }
                    };
                    let axes = [axis(0), axis(1), axis(2)];
                    match sampler.filter {
                        Filter::Point => reader.nearest::<CHECKS>(axes.map(|axis| axis[0].0))?,
                        Filter::Linear => reader.filtered::<CHECKS>(axes)?,
                    }
                }
            };
            let origin = reader.origin;
            let mut bytes = [0; 16];
            for (to, value) in bytes.chunks_exact_mut(4).zip(found) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            deposit(&mut w.regs, &t.access, &bytes, l);
            if let Some(origin) = origin {
                self.read_undefined(w, &t.access, l, (0xffff, origin));
            }
        }
        Ok(())
    }

    /// Executes a load or a store of a surface.
    pub fn surface<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        t: &SurfaceAccess,
        s: Site,
    ) -> Run<()> {
        self.progress += u64::from(t.store);
        self.count_request(s);
        let bytes = t.access.bytes();
        let handles = addresses(&w.regs, t.access.address, 0);
        // Lanes with the same handle are looked at as one access.
        let mut rest = s.mask;
        while rest != 0 {
            let handle = handles[rest.trailing_zeros() as usize];
            let together = lanes(rest).filter(|&l| handles[l] == handle);
            let together = together.fold(0, |all, l| all | 1_u32 << l);
            rest &= !together;
            let first = Site {
                mask: together,
                ..s
            };
            let (image, bound) = self.image((first, handle))?;
            if bound != Bound::Surface {
                let what = format!("a surface access to the texture of {}", self.named(&image));
                return first.refuse_at(FaultKind::Undefined, handle, what);
            }
            if image.geometry != t.geometry {
                return self.other_geometry(t.geometry, &image, (first, handle));
            }
            let Some(i) = self.memory.find(image.address, image.bytes()) else {
                let what = format!("the memory of {} is gone", self.named(&image));
                return first.refuse_at(FaultKind::Undefined, handle, what);
            };
            let base = image.address - self.memory.at(i).base;
            let mut at = [0_u64; LANES];
            let mut inside = 0;
            for l in lanes(together) {
                if let Some(offset) = self.on_surface(w, t, &image, s.only(l))? {
                    (at[l], inside) = (base + offset, inside | 1 << l);
                }
            }
            if !t.store {
                for l in lanes(together & !inside) {
                    deposit(&mut w.regs, &t.access, &[0; 32], l);
                }
            }
            if inside == 0 {
                continue;
            }
            let site = Site { mask: inside, ..s };
            let transfer = Transfer::new(&t.access, t.store);
            let x = LaneAccess::new(site, &at, bytes, transfer.direction());
            self.within_allocation::<CHECKS>(b, w, transfer, &x, i);
        }
        Ok(())
    }

    /// Executes a query of a texture or a surface.
    pub fn ask_image(
        &mut self,
        w: &mut Warp,
        asked: ImageQuery,
        (to, handle): (u32, u32),
        s: Site,
    ) -> Run<()> {
        for l in lanes(s.mask) {
            let handle = w.regs.r64[handle as usize].0[l];
            let (image, bound) = self.image((s.only(l), handle))?;
            let normalized = match bound {
                Bound::Texture(sampler) => sampler.normalized,
                Bound::Surface => false,
            };
            // The extent of an axis that the image does not have is 0.
            let axis = |n: u8| {
                if n < image.geometry.rank {
                    image.extents[usize::from(n)]
                } else {
                    0
                }
            };
            w.regs.r32[to as usize].0[l] = match asked {
                ImageQuery::Width => axis(0),
                ImageQuery::Height => axis(1),
                ImageQuery::Depth => axis(2),
                ImageQuery::Layers if image.geometry.layered => image.layers,
                ImageQuery::Layers => 0,
                ImageQuery::NormalizedCoordinates => u32::from(normalized),
            };
        }
        Ok(())
    }

    /// Returns the image that a handle names, and how it is bound. Faults if it names none.
    fn image(&self, (s, handle): (Site, u64)) -> Run<(Image, Bound)> {
        if let Some(found) = self.memory.bound(handle) {
            return Ok(found);
        }
        let what = match self.memory.find(handle, 1) {
            Some(i) => format!(
                "the address of `{}`, where a texture or surface object is needed,",
                self.memory.at(i).name
            ),
            None => format!("{handle:#x}, which is no texture or surface object,"),
        };
        s.refuse_at(FaultKind::Undefined, handle, what)
    }

    /// Returns a name for messages: the allocation that the image lies in.
    fn named(&self, image: &Image) -> String {
        match self.memory.find(image.address, 1) {
            Some(i) => format!("`{}`", self.memory.at(i).name),
            None => "memory that is gone".into(),
        }
    }

    fn other_geometry<T>(
        &self,
        asked: crate::image::Geometry,
        image: &Image,
        (s, handle): (Site, u64),
    ) -> Run<T> {
        let what = format!(
            "a {asked} access to {}, which is a {} image,",
            self.named(image),
            image.geometry
        );
        s.refuse_at(FaultKind::Undefined, handle, what)
    }

    /// Faults if the texture is of another kind than the instruction reads.
    fn check_fetch(
        &self,
        t: &TextureFetch,
        image: &Image,
        sampler: &Sampler,
        (s, handle): (Site, u64),
    ) -> Run<()> {
        if t.geometry != image.geometry {
            return self.other_geometry(t.geometry, image, (s, handle));
        }
        let float = image.format.is_float() || sampler.as_float;
        let what = match (t.fetch, t.coordinates, image.layout) {
            (Fetch::Gather(channel), ..) if channel >= image.channels => {
                "a gather of a channel that the texture does not have"
            }
            (Fetch::Filtered, Coordinates::Integer, _) if sampler.normalized => {
                "a fetch by whole coordinates from a texture with normalised ones"
            }
            (_, Coordinates::Float, Layout::Linear) => {
                "a fetch by other than a whole coordinate from a texture in linear memory"
            }
            _ if float && !t.float => "a fetch of integers from a texture of floats",
            _ if t.float && !float => "a fetch of floats from a texture of integers",
            _ => return Ok(()),
        };
        let what = format!("{what}, {},", self.named(image));
        s.refuse_at(FaultKind::Undefined, handle, what)
    }

    /// Faults on a texel outside of linear memory. The guide's handling of texels outside does not hold there.
    fn in_linear(&self, image: &Image, x: i64, (s, handle): (Site, u64)) -> Run<()> {
        if (0..i64::from(image.extents[0])).contains(&x) {
            return Ok(());
        }
        let what = format!(
            "texture fetch out of bounds: texel {x} of {} in {}",
            image.extents[0],
            self.named(image)
        );
        s.refuse_at(FaultKind::OutOfBounds, handle, what)
    }

    /// Returns the offset from the start of the image to what a lane accesses, or `None` if it accesses nothing.
    fn on_surface(&self, w: &Warp, t: &SurfaceAccess, image: &Image, s: Site) -> Run<Option<u64>> {
        let l = s.mask.trailing_zeros() as usize;
        let bytes = i64::from(t.access.bytes());
        let raw = |n: usize| match t.at.get(n) {
            Some(r) => i64::from(w.regs.r32[*r as usize].0[l] as i32),
            None => 0,
        };
        let [nx, ny, nz] = image.extents.map(i64::from);
        let row = nx * i64::from(image.texel_bytes());
        let layer = t.layer.map_or(0, |r| w.regs.r32[r as usize].0[l]);
        let (x, place) = (raw(0), [raw(1), raw(2), i64::from(layer)]);
        if x.rem_euclid(bytes) != 0 {
            let what = format!(
                "misaligned access: {bytes} bytes at byte {x} of a row of the surface of {}",
                self.named(image)
            );
            return s.refuse(FaultKind::Misaligned, what);
        }
        // The last place along each axis but x, which is in bytes.
        let last = [ny - 1, nz - 1, i64::from(image.layers) - 1];
        let there = |x: i64, last: i64| (0..=last).contains(&x);
        let all = there(x, row - bytes) && place.iter().zip(last).all(|(x, last)| there(*x, last));
        let (x, [y, z, layer]) = match (all, t.outside) {
            (true, _) => (x, place),
            (false, OutsideSurface::Zero) => return Ok(None),
            (false, OutsideSurface::Clamp) if row >= bytes => (
                x.clamp(0, row - bytes),
                std::array::from_fn(|n| place[n].clamp(0, last[n])),
            ),
            (false, _) => {
                let layer = match t.layer {
                    Some(_) => format!(", layer {layer} of {}", image.layers),
                    None => String::new(),
                };
                let axes = usize::from(image.geometry.rank);
                let names = [
                    format!("byte {x} of a row of {row}"),
                    format!("y {} of {ny}", place[0]),
                    format!("z {} of {nz}", place[1]),
                ];
                let what = format!(
                    "{} of {bytes} bytes out of bounds of the surface of {}: {}{layer}",
                    if t.store { "write" } else { "read" },
                    self.named(image),
                    names[..axes].join(", "),
                );
                return s.refuse(FaultKind::OutOfBounds, what);
            }
        };
        let row_number = y + ny * (z + nz * layer);
        Ok(u64::try_from(x + row * row_number).ok())
    }
}

/// Returns the four texels that a linear filter would take, counter-clockwise from the lower left (PTX ISA 9.7.10,
/// tld4).
fn gathered(raw: [u32; 3], image: &Image, sampler: &Sampler) -> [TexelIndex; 4] {
    let axis = |n: usize| {
        let scale = if sampler.normalized {
            f64::from(image.extents[n])
        } else {
            1.0
        };
        footprint(f64::from(f32::from_bits(raw[n])) * scale).map(|(i, _)| i)
    };
    let ([x0, x1], [y0, y1]) = (axis(0), axis(1));
    [[x0, y1, 0], [x1, y1, 0], [x1, y0, 0], [x0, y0, 0]]
}

/// Reads the texels that one lane fetches.
struct TexelReader<'r, 'm> {
    machine: &'r mut Machine<'m>,
    b: &'r BlockState,
    w: &'r Warp,
    site: Site,
    lane: usize,
    image: Image,
    layer: u32,
    outside: Outside,
    float: bool,
    /// The origin of the first undefined texel.
    origin: Option<Origin>,
}

/// The bytes of a texel, or `None` on the border.
type Texel = Option<[u8; 16]>;

impl TexelReader<'_, '_> {
    /// Reads a texel, with its checks.
    fn texel<const CHECKS: bool>(&mut self, place: TexelIndex) -> Run<Texel> {
        let mut found = [0; 3];
        for (n, to) in found.iter_mut().enumerate() {
            match inside(place[n], self.image.extents[n], self.outside) {
                Some(at) => *to = at,
                None => return Ok(None),
            }
        }
        let bytes = self.image.texel_bytes();
        let address = self.image.address + self.image.offset(found, self.layer);
        let address = [address; LANES];
        let x = LaneAccess::new(self.site, &address, bytes, Direction::Read);
        let (m, b) = (&mut *self.machine, self.b);
        let (i, at) = m.locate(&x, self.lane)?;
        let place = [at as u64; LANES];
        let site = self.site.only(self.lane);
        let x = LaneAccess::new(site, &place, bytes, Direction::Read);
        let seen = m.observe_global::<CHECKS>(b, self.w, i, &x);
        if CHECKS {
            let missing = m.missing(b, Target::Global(i), (at, bytes), site.pc);
            self.origin = self.origin.or(missing.map(|(_, origin)| origin));
        }
        let mut texel = [0; 16];
        let held = m.memory.at(i).content.bytes(seen);
        texel[..bytes as usize].copy_from_slice(&held[at..at + bytes as usize]);
        Ok(Some(texel))
    }

    /// Returns the bits of a channel; 0 if the image has no such channel, or on the border.
    fn bits(&self, texel: &Texel, channel: u32) -> u32 {
        if self.float {
            (self.value(texel, channel) as f32).to_bits()
        } else {
            self.channel(texel, channel, 0, Image::integer)
        }
    }

    fn value(&self, texel: &Texel, channel: u32) -> f64 {
        self.channel(texel, channel, 0.0, Image::float)
    }

    fn channel<T>(
        &self,
        texel: &Texel,
        channel: u32,
        none: T,
        read: impl Fn(&Image, &[u8]) -> T,
    ) -> T {
        match texel {
            Some(bytes) if channel < self.image.channels => {
                let from = (channel * self.image.format.bytes()) as usize;
                read(&self.image, &bytes[from..])
            }
            _ => none,
        }
    }

    /// Returns the channels of one texel.
    fn nearest<const CHECKS: bool>(&mut self, place: TexelIndex) -> Run<[u32; 4]> {
        let texel = self.texel::<CHECKS>(place)?;
        Ok(std::array::from_fn(|n| self.bits(&texel, n as u32)))
    }

    /// Returns the weighted sums of the channels over all axes. A texel that weighs nothing is not read.
    fn filtered<const CHECKS: bool>(&mut self, axes: [[(i64, u32); 2]; 3]) -> Run<[u32; 4]> {
        let mut sums = [0.0; 4];
        let weights = corners(axes.map(|[_, (_, weight)]| weight));
        for (corner, weight) in weights.into_iter().enumerate() {
            if weight == 0 {
                continue;
            }
            let place = std::array::from_fn(|n| axes[n][corner >> n & 1].0);
            let texel = self.texel::<CHECKS>(place)?;
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum += f64::from(weight) * self.value(&texel, n as u32);
            }
        }
        let all = f64::from(crate::image::ONE);
        Ok(sums.map(|sum| ((sum / all) as f32).to_bits()))
    }
}
