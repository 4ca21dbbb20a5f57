//! Opens the chosen device, or returns the reason why there is none.

use super::CudaDevice;
use super::error::{check, describe};
use super::placed::PlacedPages;
use super::timer::Overheads;
use crate::device::choice::{DeviceChoice, Init, Presence, Traces};
use crate::device::nvml::Monitor;
use crate::device::{Failure, Result};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUresult};
use model::DeviceFacts;
use model::FaultKind;
use std::ffi::CStr;
use system::files;
use wording::reasons;

pub enum Opened {
    Device(Box<CudaDevice>),
    /// There is no NVIDIA device, and the user named none.
    Absent(String),
    /// There is a device, and it or its driver does not work.
    Broken(String),
}

pub fn open(choice: DeviceChoice) -> Opened {
    // SAFETY: loading the driver's library runs its initialisers, as every CUDA program does.
    let library = unsafe { sys::is_culib_present() };
    let presence = Traces::for_nodes(library).judge(|| {
        // SAFETY: asked only where the library is there.
        match unsafe { sys::cuInit(0) } {
            CUresult::CUDA_SUCCESS => Init::Ready,
            CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_STUB_LIBRARY => Init::NoDevice,
            code => Init::Failed(describe(code)),
        }
    });
    match (presence, choice) {
        (Presence::Absent(reason), DeviceChoice::Auto | DeviceChoice::Sim) => {
            Opened::Absent(reason)
        }
        (Presence::Absent(reason), DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll) => {
            Opened::Broken(format!("there is no {choice}: {reason}"))
        }
        (Presence::Broken(reason), _) => Opened::Broken(reason),
        (Presence::Ready, _) => match open_ordinal(choice.ordinal()) {
            Ok(device) => Opened::Device(Box::new(device)),
            Err(Failure::Fault { fault, .. }) => Opened::Broken(fault.message),
            Err(Failure::Unsupported(why)) => Opened::Broken(reasons::unsupported(&why)),
        },
    }
}

/// CUDA 12.0, driver branch 525: the oldest that has every driver function called here. cudarc panics if one is
/// missing.
const OLDEST: i32 = 12_000;

fn broken<T>(message: String) -> Result<T> {
    Err(Failure::case_alone(FaultKind::Environment, message))
}

fn open_ordinal(ordinal: u32) -> Result<CudaDevice> {
    let mut cuda_driver_version = 0;
    // SAFETY: the driver writes one number.
    check("cuDriverGetVersion", unsafe {
        sys::cuDriverGetVersion(&raw mut cuda_driver_version)
    })?;
    if cuda_driver_version < OLDEST {
        return broken(format!(
            "the driver supports only CUDA {}.{}; branch 525 or later is needed, and 580 or later for cubins of CUDA 13",
            cuda_driver_version / 1000,
            cuda_driver_version % 1000 / 10
        ));
    }
    let mut count = 0;
    // SAFETY: the driver writes one number.
    check("cuDeviceGetCount", unsafe {
        sys::cuDeviceGetCount(&raw mut count)
    })?;
    if i64::from(ordinal) >= i64::from(count) {
        return broken(format!(
            "there is no cuda:{ordinal}: this machine has {count} CUDA devices (0 to {})",
            count - 1
        ));
    }
    let mut device = 0;
    // SAFETY: the driver writes one number.
    check("cuDeviceGet", unsafe {
        sys::cuDeviceGet(&raw mut device, ordinal as i32)
    })?;
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes the handle; the device is there.
    check("cuDevicePrimaryCtxRetain", unsafe {
        sys::cuDevicePrimaryCtxRetain(&raw mut context, device)
    })?;
    // SAFETY: the context is retained, and never released.
    check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })?;
    let mut stream = std::ptr::null_mut();
    // SAFETY: the driver writes the handle.
    check("cuStreamCreate", unsafe {
        sys::cuStreamCreate(
            &raw mut stream,
            sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32,
        )
    })?;

    let attribute = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: the driver writes one number; the device is there.
        check("cuDeviceGetAttribute", unsafe {
            sys::cuDeviceGetAttribute(&raw mut value, attribute, device)
        })
        .map(|()| value)
    };
    let mut memory_bytes = 0;
    // SAFETY: the driver writes one number; the device is there.
    check("cuDeviceTotalMem", unsafe {
        sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, device)
    })?;
    // SAFETY: `text` gives a buffer and its length.
    let name = text(|buffer, len| unsafe { sys::cuDeviceGetName(buffer, len, device) })?;
    // SAFETY: as above.
    let pci = text(|buffer, len| unsafe { sys::cuDeviceGetPCIBusId(buffer, len, device) })?;
    let mut uuid = sys::CUuuid_st { bytes: [0; 16] };
    // SAFETY: the driver writes 16 bytes, and the array has 16.
    check("cuDeviceGetUuid", unsafe {
        sys::cuDeviceGetUuid_v2(&raw mut uuid, device)
    })?;
    let monitor = Monitor::open(&pci);
    let facts = DeviceFacts {
        ordinal,
        name,
        uuid: uuid_text(&uuid.bytes.map(|byte| byte as u8)),
        major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u8,
        minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u8,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory_bytes: memory_bytes as u64,
        driver: monitor
            .as_ref()
            .and_then(Monitor::driver)
            .or_else(kernel_module_version)
            .unwrap_or_else(|| "unknown".to_owned()),
        cuda_driver_version: cuda_driver_version as u32,
        clock_policy: monitor
            .as_ref()
            .map_or("default", Monitor::clock_policy)
            .to_owned(),
        max_sm_mhz: monitor.as_ref().and_then(Monitor::max_sm_mhz),
    };
    Ok(CudaDevice {
        facts,
        devices: count as u32,
        stream,
        allocations: Vec::new(),
        placed: PlacedPages::default(),
        programs: Vec::new(),
        images: Default::default(),
        tools: None,
        monitor,
        overheads: Overheads::default(),
    })
}

fn text(get: impl FnOnce(*mut std::ffi::c_char, i32) -> CUresult) -> Result<String> {
    let mut buffer = [0u8; 256];
    check(
        "reading the device's name",
        get(buffer.as_mut_ptr().cast(), buffer.len() as i32),
    )?;
    Ok(CStr::from_bytes_until_nul(&buffer)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default())
}

/// Returns a UUID as nvidia-smi writes it.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Returns the driver's version as the kernel module says it, for a machine without NVML.
fn kernel_module_version() -> Option<String> {
    files::read_text(
        std::path::Path::new("/sys/module/nvidia/version"),
        files::WRITTEN,
    )
    .ok()
    .map(|text| text.trim().to_owned())
    .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuids_read_as_nvidia_smi_writes_them() {
        let bytes = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(
            super::uuid_text(&bytes),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
