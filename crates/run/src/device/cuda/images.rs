//! Makes arrays, and texture and surface objects over arrays or over linear memory.
//!
//! A tensor stays between its guards, where all tensors are. An array is a copy of it, made when it is bound. A tensor
//! that surfaces write is copied to the array before a launch and back after it. Neither copy is timed.

use super::error::{check, checked};
use crate::device::{Address, Failure, Result};
use cudarc::driver::sys;
use model::{
    ElemType, FaultKind, Image, ImageMemory, Sampler, TextureAddress, TextureFilter, TextureRead,
};
use std::ptr::{null, null_mut};

/// The largest side of an array whose texels can be gathered.
const MOST_GATHERED: u32 = 32_768;

#[derive(Default)]
pub struct Images {
    arrays: Vec<Array>,
    textures: Vec<sys::CUtexObject>,
    surfaces: Vec<sys::CUsurfObject>,
}

struct Array {
    of: Address,
    image: Image,
    handle: sys::CUarray,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyDirection {
    ToArray,
    ToMemory,
}

impl Images {
    pub fn bind(
        &mut self,
        at: Address,
        image: &Image,
        sampler: Option<&Sampler>,
        stream: sys::CUstream,
    ) -> Result<u64> {
        let resource = match image.memory {
            ImageMemory::Array => array_resource(self.array(at, image, stream)?),
            ImageMemory::Linear => linear_resource(at, image)?,
        };
        let mut object = 0;
        match sampler {
            None => {
                checked(
                    "the surface object",
                    // SAFETY: the resource describes an array of ours.
                    unsafe { sys::cuSurfObjectCreate(&raw mut object, &raw const resource) },
                    FaultKind::LaunchRefused,
                )?;
                self.surfaces.push(object);
            }
            Some(sampler) => {
                let description = texture(sampler, image);
                checked(
                    "the texture object",
                    // SAFETY: as above, or memory of ours; no view of it.
                    unsafe {
                        sys::cuTexObjectCreate(
                            &raw mut object,
                            &raw const resource,
                            &raw const description,
                            null(),
                        )
                    },
                    FaultKind::LaunchRefused,
                )?;
                self.textures.push(object);
            }
        }
        Ok(object)
    }

    /// Returns the array of a tensor, with the tensor's content. It is made only once.
    fn array(&mut self, of: Address, image: &Image, stream: sys::CUstream) -> Result<sys::CUarray> {
        let known = self
            .arrays
            .iter()
            .find(|array| array.of == of && array.image == *image);
        if let Some(known) = known {
            return Ok(known.handle);
        }
        let mut handle = null_mut();
        let description = array(image);
        checked(
            "the array of a texture or surface",
            // SAFETY: the driver writes the handle.
            unsafe { sys::cuArray3DCreate_v2(&raw mut handle, &raw const description) },
            FaultKind::LaunchRefused,
        )?;
        let made = Array {
            of,
            image: *image,
            handle,
        };
        copy(&made, CopyDirection::ToArray, stream)?;
        self.arrays.push(made);
        Ok(handle)
    }

    /// Queues copies of these tensors to their arrays.
    pub fn fill(&self, tensors: &[Address], stream: sys::CUstream) -> Result<()> {
        self.copy_all(tensors, CopyDirection::ToArray, stream)
    }

    /// Queues copies of the arrays back to these tensors.
    pub fn empty(&self, tensors: &[Address], stream: sys::CUstream) -> Result<()> {
        self.copy_all(tensors, CopyDirection::ToMemory, stream)
    }

    fn copy_all(
        &self,
        tensors: &[Address],
        way: CopyDirection,
        stream: sys::CUstream,
    ) -> Result<()> {
        self.arrays
            .iter()
            .filter(|array| tensors.contains(&array.of))
            .try_for_each(|array| copy(array, way, stream))
    }

    /// Frees all arrays. The stream must be idle.
    pub fn free(&mut self) -> Result<()> {
        for object in self.textures.drain(..) {
            // SAFETY: made by `bind`, destroyed once.
            check("cuTexObjectDestroy", unsafe {
                sys::cuTexObjectDestroy(object)
            })?;
        }
        for object in self.surfaces.drain(..) {
            // SAFETY: as above.
            check("cuSurfObjectDestroy", unsafe {
                sys::cuSurfObjectDestroy(object)
            })?;
        }
        for array in self.arrays.drain(..) {
            // SAFETY: as above; no object rests on it any more.
            check("cuArrayDestroy", unsafe {
                sys::cuArrayDestroy(array.handle)
            })?;
        }
        Ok(())
    }
}

fn format(elem: ElemType) -> Result<sys::CUarray_format> {
    use sys::CUarray_format_enum as Format;
    Ok(match elem {
        ElemType::U8 => Format::CU_AD_FORMAT_UNSIGNED_INT8,
        ElemType::I8 => Format::CU_AD_FORMAT_SIGNED_INT8,
        ElemType::U16 => Format::CU_AD_FORMAT_UNSIGNED_INT16,
        ElemType::I16 => Format::CU_AD_FORMAT_SIGNED_INT16,
        ElemType::U32 => Format::CU_AD_FORMAT_UNSIGNED_INT32,
        ElemType::I32 => Format::CU_AD_FORMAT_SIGNED_INT32,
        ElemType::F16 => Format::CU_AD_FORMAT_HALF,
        ElemType::F32 => Format::CU_AD_FORMAT_FLOAT,
        other => {
            return Err(Failure::case_alone(
                FaultKind::LaunchRefused,
                format!("no texture or surface holds {}", other.name()),
            ));
        }
    })
}

/// Returns the bytes of a row, the number of rows, and the number of planes or layers.
fn extents(image: &Image) -> [usize; 3] {
    let [x, y, z] = image.extents.map(|extent| extent as usize);
    let texel = image.elem.size() * image.channels as usize;
    [x * texel, y, z * image.layers.unwrap_or(1) as usize]
}

fn array(image: &Image) -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    let [x, y, z] = image.extents.map(|extent| extent as usize);
    let mut flags = sys::CUDA_ARRAY3D_SURFACE_LDST;
    if image.layers.is_some() {
        flags |= sys::CUDA_ARRAY3D_LAYERED;
    }
    let is_small = image.extents.iter().all(|extent| *extent <= MOST_GATHERED);
    if image.rank == 2 && image.layers.is_none() && is_small {
        flags |= sys::CUDA_ARRAY3D_TEXTURE_GATHER;
    }
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: x,
        // An axis that the image does not have has the extent 0.
        Height: if image.rank > 1 { y } else { 0 },
        Depth: match image.layers {
            Some(layers) => layers as usize,
            None if image.rank > 2 => z,
            None => 0,
        },
        Format: format(image.elem).unwrap_or(sys::CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT8),
        NumChannels: image.channels,
        Flags: flags,
    }
}

fn array_resource(array: sys::CUarray) -> sys::CUDA_RESOURCE_DESC {
    // SAFETY: plain data; all zeros are a value of it.
    let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    resource.resType = sys::CUresourcetype_enum::CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    resource
}

fn linear_resource(at: Address, image: &Image) -> Result<sys::CUDA_RESOURCE_DESC> {
    // SAFETY: as above.
    let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    resource.resType = sys::CUresourcetype_enum::CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
        devPtr: at,
        format: format(image.elem)?,
        numChannels: image.channels,
        sizeInBytes: extents(image)[0],
    };
    Ok(resource)
}

fn texture(sampler: &Sampler, image: &Image) -> sys::CUDA_TEXTURE_DESC {
    use sys::CUaddress_mode_enum as Address;
    use sys::CUfilter_mode_enum as Filter;
    // SAFETY: as above.
    let mut texture: sys::CUDA_TEXTURE_DESC = unsafe { std::mem::zeroed() };
    let mode = match sampler.address {
        TextureAddress::Clamp => Address::CU_TR_ADDRESS_MODE_CLAMP,
        TextureAddress::Border => Address::CU_TR_ADDRESS_MODE_BORDER,
        TextureAddress::Wrap => Address::CU_TR_ADDRESS_MODE_WRAP,
        TextureAddress::Mirror => Address::CU_TR_ADDRESS_MODE_MIRROR,
    };
    // An H200 filters a 1D texture along y, too, and at 0 half of each texel would be the border's.
    texture.addressMode = [Address::CU_TR_ADDRESS_MODE_CLAMP; 3];
    texture
        .addressMode
        .iter_mut()
        .take(usize::from(image.rank))
        .for_each(|axis| *axis = mode);
    texture.filterMode = match sampler.filter {
        TextureFilter::Point => Filter::CU_TR_FILTER_MODE_POINT,
        TextureFilter::Linear => Filter::CU_TR_FILTER_MODE_LINEAR,
    };
    texture.mipmapFilterMode = Filter::CU_TR_FILTER_MODE_POINT;
    if sampler.normalized {
        texture.flags |= sys::CU_TRSF_NORMALIZED_COORDINATES;
    }
    // Without this flag, the driver reads integers of 8 and 16 bits as floats.
    if sampler.read == TextureRead::Element && !image.elem.is_float() {
        texture.flags |= sys::CU_TRSF_READ_AS_INTEGER;
    }
    texture
}

/// Copies between a tensor, which is contiguous, and its array.
fn copy(array: &Array, way: CopyDirection, stream: sys::CUstream) -> Result<()> {
    use sys::CUmemorytype_enum as Memory;
    let [row, rows, planes] = extents(&array.image);
    let mut copy = sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: Memory::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: array.of,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: row,
        srcHeight: rows,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: Memory::CU_MEMORYTYPE_ARRAY,
        dstHost: null_mut(),
        dstDevice: 0,
        dstArray: array.handle,
        reserved1: null_mut(),
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: row,
        Height: rows,
        Depth: planes,
    };
    match way {
        CopyDirection::ToArray => {}
        CopyDirection::ToMemory => {
            copy.srcMemoryType = Memory::CU_MEMORYTYPE_ARRAY;
            copy.srcArray = array.handle;
            copy.dstMemoryType = Memory::CU_MEMORYTYPE_DEVICE;
            (copy.dstDevice, copy.dstPitch, copy.dstHeight) = (array.of, row, rows);
        }
    }
    // SAFETY: the tensor and the array are ours, and have the extents that the copy has.
    check("cuMemcpy3DAsync", unsafe {
        sys::cuMemcpy3DAsync_v2(&raw const copy, stream)
    })
}
