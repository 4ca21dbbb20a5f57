//! The GPU through its driver, as little of it as comparing needs. PTX text goes in, the driver
//! compiles it. Knows nothing of what is compared.

use cudarc::driver::{result, sys};
use std::error::Error;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The primary context of the first device, current on every thread that asks.
pub struct Gpu {
    context: sys::CUcontext,
    name: String,
    /// Compiles PTX instead of the driver, which takes one module at a time.
    ptxas: Option<PathBuf>,
}

// SAFETY: a context may be current on any number of threads; the driver locks.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// Grid, block, shared memory and, if the launch names one, cluster.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub cluster: Option<[u32; 3]>,
}

impl Gpu {
    pub fn open(ptxas: Option<PathBuf>) -> Result<Gpu> {
        // SAFETY: loading the driver's library runs its initialisers, as every CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err("no libcuda: this command needs an NVIDIA GPU".into());
        }
        result::init()?;
        let device = result::device::get(0)?;
        // SAFETY: the device is there; its primary context is never released.
        let context = unsafe { result::primary_ctx::retain(device)? };
        let mut version = 0;
        // SAFETY: the driver writes a number.
        unsafe { sys::cuDriverGetVersion(&raw mut version).result()? };
        let name = format!(
            "{}, driver for CUDA {}.{}",
            result::device::get_name(device)?,
            version / 1000,
            version % 1000 / 10
        );
        let gpu = Gpu {
            context,
            name,
            ptxas,
        };
        gpu.bind()?;
        Ok(gpu)
    }

    /// Makes the context current on this thread.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process.
        unsafe { result::ctx::set_current(self.context)? };
        Ok(())
    }

    /// Returns the name of the GPU for tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles PTX. The error carries what the driver's compiler said.
    pub fn load(&self, ptx: &str) -> Result<Loaded> {
        match &self.ptxas {
            Some(ptxas) => {
                let cubin = assemble(ptxas, ptx)?;
                // SAFETY: an ELF that says itself how long it is.
                let module = unsafe { result::module::load_data(cubin.as_ptr().cast())? };
                Ok(Loaded { module })
            }
            None => self.load_by_driver(ptx),
        }
    }

    fn load_by_driver(&self, ptx: &str) -> Result<Loaded> {
        let text = CString::new(ptx)?;
        let mut log = vec![0_u8; 4096];
        let mut module = std::ptr::null_mut();
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        // SAFETY: the text ends with NUL; the log outlives the call; two options, two values.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                text.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        code.result().map_err(|e| {
            let end = log.iter().position(|&b| b == 0).unwrap_or(0);
            format!("{e}: {}", String::from_utf8_lossy(&log[..end]))
        })?;
        Ok(Loaded { module })
    }

    pub fn alloc(&self, bytes: usize) -> Result<Buffer> {
        // SAFETY: a plain allocation, zeroed before anybody sees it.
        unsafe {
            let address = result::malloc_sync(bytes.max(1))?;
            let buffer = Buffer { address, bytes };
            result::memset_d8_sync(address, 0, bytes.max(1))?;
            Ok(buffer)
        }
    }

    pub fn put(&self, data: &[u8]) -> Result<Buffer> {
        let buffer = self.alloc(data.len())?;
        // SAFETY: as long as the allocation.
        unsafe { result::memcpy_htod_sync(buffer.address, data)? };
        Ok(buffer)
    }

    pub fn wait(&self) -> Result<()> {
        result::ctx::synchronize()?;
        Ok(())
    }
}

fn assemble(ptxas: &Path, ptx: &str) -> Result<Vec<u8>> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let base = std::env::temp_dir().join(format!("proof-{}-{number}", std::process::id()));
    let (from, to) = (base.with_extension("ptx"), base.with_extension("cubin"));
    std::fs::write(&from, ptx)?;
    let run = Command::new(ptxas)
        .args(["-arch=sm_90a", "-o"])
        .args([&to, &from])
        .output()?;
    let cubin = std::fs::read(&to);
    for path in [from, to] {
        // A file that was never written needs no removal.
        let _ = std::fs::remove_file(path);
    }
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    Ok(cubin?)
}

pub struct Loaded {
    module: sys::CUmodule,
}

impl Loaded {
    /// Queues one launch. `params` holds the parameters' bytes, one slice each.
    pub fn launch(&self, name: &str, shape: Shape, params: &[&[u8]]) -> Result<()> {
        // SAFETY: the module is loaded; the driver copies parameters before it returns, as many
        // bytes as the kernel declares, which is what the callers lay out.
        unsafe {
            let function = result::module::get_function(self.module, CString::new(name)?)?;
            if shape.dynamic_shared > 48 << 10 {
                result::function::set_function_attribute(
                    function,
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shape.dynamic_shared as i32,
                )?;
            }
            let mut pointers: Vec<*mut c_void> = params
                .iter()
                .map(|p| p.as_ptr().cast_mut().cast())
                .collect();
            let mut attribute = shape.cluster.map(|[x, y, z]| sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
                },
            });
            let attributes = attribute.as_mut_slice();
            let [gx, gy, gz] = shape.grid;
            let [bx, by, bz] = shape.block;
            let config = sys::CUlaunchConfig {
                gridDimX: gx,
                gridDimY: gy,
                gridDimZ: gz,
                blockDimX: bx,
                blockDimY: by,
                blockDimZ: bz,
                sharedMemBytes: shape.dynamic_shared,
                hStream: std::ptr::null_mut(),
                attrs: attributes.as_mut_ptr(),
                numAttrs: attributes.len() as u32,
            };
            sys::cuLaunchKernelEx(
                &raw const config,
                function,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
            .result()?;
        }
        Ok(())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: nothing of it runs any more: results were read, which waits.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

/// An allocation of device memory, which is freed when it is dropped.
pub struct Buffer {
    pub address: u64,
    pub bytes: usize,
}

impl Buffer {
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut data = vec![0; self.bytes];
        // SAFETY: as long as the allocation; the copy waits for the launches before it.
        unsafe { result::memcpy_dtoh_sync(&mut data, self.address)? };
        Ok(data)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `alloc`, freed once.
        let _ = unsafe { result::free_sync(self.address) };
    }
}
