//! The SIGBUS handler: a miss arrives here, in the thread that missed.
//!
//! It does not run on the alternate stack: language runtimes make those only a few KiB large, and a
//! miss may have to evict. SIGBUS stays open inside, so that a chained handler may jump out; all
//! asynchronous signals are blocked, so that no other handler runs on top of the pager's locks.

use super::fork::OfProcess;
use super::signals::asynchronous;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Mutex;

/// A miss as the kernel tells it.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Faulting address.
    pub addr: usize,
    /// It was a store, where the processor says.
    pub write: bool,
}

/// What the pager made of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handling {
    /// The access can run again.
    Done,
    /// Not an address of ours, or the page cannot be brought in: the next handler is asked.
    NotOurs,
}

/// The pager's half of the handler.
pub type Handler = fn(Miss) -> Handling;

/// Where the handler can be: at the bottom, as [`install`] leaves it, and on top of somebody who came after.
const LAYERS: usize = 2;
const BOTTOM: usize = 0;
const TOP: usize = 1;

/// What was in place before us, by layer; null: we are not.
static PREVIOUS: [AtomicPtr<libc::sigaction>; LAYERS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; LAYERS];
/// One change at a time.
static TURN: OfProcess<Mutex<()>> = OfProcess::new();
static CALL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// A miss is being handled by this thread. Constant and without drop: no allocation in the
    /// handler.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Why the handler is not in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallError {
    /// The kernel refused.
    #[error("sigaction(SIGBUS) failed with error {0}")]
    Refused(i32),
    /// The calling thread would be killed by its first miss.
    #[error(
        "this thread blocks SIGBUS, by which misses arrive: its first miss would kill the process; \
         unblock SIGBUS (pthread_sigmask) on all threads that use a region"
    )]
    Blocked,
    /// Somebody has put a handler on top of ours.
    #[error(
        "another library has replaced the SIGBUS handler; make it chain to the previous handler and \
         start it before the first pool"
    )]
    Replaced,
}

/// Installs the handler once; later calls check that it still is in place.
pub fn install(handler: Handler) -> Result<(), InstallError> {
    if super::signals::blocks_sigbus() {
        return Err(InstallError::Blocked);
    }
    let _turn = TURN.get().lock().unwrap_or_else(|e| e.into_inner());
    if has_layer(BOTTOM) {
        return if is_ours(&current()?) {
            Ok(())
        } else {
            Err(InstallError::Replaced)
        };
    }
    CALL.store(handler as *mut (), Ordering::Release);
    take_over(BOTTOM)
}

fn has_layer(layer: usize) -> bool {
    !PREVIOUS[layer].load(Ordering::Acquire).is_null()
}

/// Puts the installed handler on top of the one that somebody has put on it since. Whoever restores what
/// was there before, as Python's faulthandler does when it ends, restores our own. Once; later calls do nothing.
pub fn put_on_top() -> Result<(), InstallError> {
    let _turn = TURN.get().lock().unwrap_or_else(|e| e.into_inner());
    if !has_layer(BOTTOM) || has_layer(TOP) || is_ours(&current()?) {
        return Ok(());
    }
    take_over(TOP)
}

/// Whose handler SIGBUS has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Ours.
    Ours,
    /// No handler: the default, or SIGBUS is ignored, which ends a program that misses as well.
    Nobody,
    /// Another one, which may chain to ours or not.
    Other,
}

/// Whose handler is in place.
///
/// # Errors
/// The kernel does not say.
pub fn whose() -> Result<Whose, InstallError> {
    let now = current()?;
    Ok(match now.sa_sigaction {
        _ if is_ours(&now) => Whose::Ours,
        libc::SIG_DFL | libc::SIG_IGN => Whose::Nobody,
        _ => Whose::Other,
    })
}

/// Our handlers, by layer.
fn entries() -> [libc::sighandler_t; LAYERS] {
    let bottom = on_sigbus::<BOTTOM> as extern "C" fn(_, _, _);
    let top = on_sigbus::<TOP> as extern "C" fn(_, _, _);
    [bottom as usize, top as usize]
}

fn is_ours(action: &libc::sigaction) -> bool {
    entries().contains(&action.sa_sigaction)
}

fn refused() -> InstallError {
    InstallError::Refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// What is in place.
fn current() -> Result<libc::sigaction, InstallError> {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action only queries; `old` is valid for writes, and zeroes are a value of it.
    unsafe {
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), old.as_mut_ptr()) != 0 {
            return Err(refused());
        }
        Ok(old.assume_init())
    }
}

/// Remembers what is in place, and takes its place.
fn take_over(layer: usize) -> Result<(), InstallError> {
    let before = Box::new(current()?);
    // Published before any miss can arrive: at the bottom no region exists yet, and on top the bottom's
    // handler is beneath.
    PREVIOUS[layer].store(Box::into_raw(before), Ordering::Release);
    // SAFETY: the action is fully initialised (zeroed, then set), and its function has the three-argument form
    // that SA_SIGINFO asks for.
    unsafe {
        let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
        new.sa_sigaction = entries()[layer];
        new.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART;
        new.sa_mask = asynchronous();
        if libc::sigaction(libc::SIGBUS, &new, std::ptr::null_mut()) != 0 {
            let refused = refused();
            PREVIOUS[layer].store(std::ptr::null_mut(), Ordering::Release);
            return Err(refused);
        }
    }
    Ok(())
}

extern "C" fn on_sigbus<const LAYER: usize>(
    sig: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: errno is per thread and always there. `info` and `context` are the kernel's.
    unsafe {
        let errno = *libc::__errno_location();
        let addr = (*info).si_addr() as usize;
        // Hardware errors and signals sent by kill are not misses.
        let miss = (*info).si_code == libc::BUS_ADRERR && !INSIDE.get();
        let handled = miss && {
            INSIDE.set(true);
            let call = CALL.load(Ordering::Acquire);
            // CALL only ever holds null or a `Handler`.
            let handler = std::mem::transmute::<*mut (), Option<Handler>>(call);
            let miss = Miss {
                addr,
                write: is_write(context),
            };
            let verdict = handler.map_or(Handling::NotOurs, |h| h(miss));
            INSIDE.set(false);
            verdict == Handling::Done
        };
        *libc::__errno_location() = errno;
        if !handled {
            chain(LAYER, sig, info, context);
        }
    }
}

/// Was the access a store? False where the processor does not say: costs a second fault, no more.
#[cfg(target_arch = "x86_64")]
fn is_write(context: *mut libc::c_void) -> bool {
    // SAFETY: the kernel passes a ucontext_t to a SA_SIGINFO handler.
    let uc = unsafe { &*context.cast::<libc::ucontext_t>() };
    uc.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_write(_context: *mut libc::c_void) -> bool {
    false
}

/// By kill, or by the kernel to tell of broken memory that has not been touched: no access has caused it.
fn was_sent(info: &libc::siginfo_t) -> bool {
    info.si_code <= 0 || info.si_code == libc::BUS_MCEERR_AO
}

/// Hands the signal to the handler that was there before.
///
/// # Safety
/// Arguments must be those of a signal handler.
unsafe fn chain(
    layer: usize,
    sig: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let previous = PREVIOUS[layer].load(Ordering::Acquire);
    // SAFETY: PREVIOUS is null or a leaked, never changed action. Its function has the form its flags
    // tell. Without one the default is restored and the access, which runs again on return, ends the
    // process with the right signal and address.
    unsafe {
        let action = previous.as_ref();
        match action.map_or(libc::SIG_DFL, |a| a.sa_sigaction) {
            libc::SIG_IGN if was_sent(&*info) => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(libc::SIGBUS, &default, std::ptr::null_mut());
                if was_sent(&*info) {
                    // Nothing will run again.
                    libc::raise(sig);
                }
            }
            f if action.is_some_and(|a| a.sa_flags & libc::SA_SIGINFO != 0) => {
                type Full = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, Full>(f)(sig, info, context);
            }
            f => std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(f)(sig),
        }
    }
}
