"""Names of the C library, which a program that a kernel is linked with may use."""

from __future__ import annotations

import re

FUNCTIONS = frozenset(
    """
a64l abort abs accept accept4 access acct acos acosh addmntent addseverity adjtime adjtimex advance
alarm aligned_alloc alphasort arc4random arc4random_buf arc4random_uniform arch_prctl asctime asin
asinh asprintf atan atan2 atanh atof atoi atol atoll backtrace backtrace_symbols
backtrace_symbols_fd basename bcmp bcopy bdflush bind bind_textdomain_codeset bindresvport
bindtextdomain brk bsd_signal bsearch btowc bzero c16rtomb c32rtomb c8rtomb cabs cacos cacosh
call_once calloc callrpc canonicalize canonicalize_file_name capget capset carg casin casinh catan
catanh catclose catgets catopen cbc_crypt cbrt ccos ccosh ceil ceilf ceill cexp cfgetispeed
cfgetospeed cfmakeraw cfree cfsetispeed cfsetospeed cfsetspeed chdir chflags chmod chown chroot
cimag clearenv clearerr clntunix_create clock clog clog10 clone close close_range closedir closefrom
closelog confstr conj connect copy_file_range copysign cos cosh cpow cproj creal crealf creall creat
create_module csin csinh csqrt ctan ctanh ctermid ctime cuserid daddl daemon daylight dcgettext
dcngettext ddivl delete_module dfmal dgettext difftime dirfd dirname div dl_iterate_phdr dladdr
dladdr1 dlclose dlerror dlinfo dlmopen dlopen dlsym dlvsym dmull dn_comp dn_expand dn_skipname
dngettext dprintf drand48 drem dsqrtl dsubl dup dup2 dup3 duplocale dysize eaccess ecb_crypt ecvt
endaliasent endfsent endgrent endhostent endmntent endnetent endnetgrent endprotoent endpwent
endrpcent endservent endsgent endspent endttyent endusershell endutent endutxent environ erand48 erf
erfc erff erfl err errno error error_at_line error_message_count error_one_per_line
error_print_progname errx euidaccess eventfd eventfd_read eventfd_write execl execle execlp execv
execve execveat execvp execvpe exit exp exp10 exp2 explicit_bzero expm1 fabs faccessat fadd
fallocate fanotify_init fanotify_mark fattach fchdir fchflags fchmod fchmodat fchown fchownat fclose
fcloseall fcntl fcntl64 fcvt fdatasync fdetach fdim fdiv fdopen fdopendir feclearexcept
fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode fegetround
feholdexcept feof feof_unlocked feraiseexcept ferror fesetenv fesetexcept fesetexceptflag fesetmode
fesetround fetestexcept fetestexceptflag feupdateenv fexecve fflush ffma ffs fgetc fgetgrent fgetpos
fgetpwent fgets fgetsgent fgetspent fgetwc fgetws fgetxattr fileno finite flistxattr flock flockfile
floor fma fmax fmaximum fmaxmag fmemopen fmin fminimum fminmag fmod fmtmsg fmul fmull fnmatch fopen
fopencookie fork forkpty fpathconf fprintf fputc fputs fputwc fputws fread free freeaddrinfo
freeifaddrs freelocale fremovexattr freopen frexp fromfp fromfpx fscanf fsconfig fseek fseeko
fsetpos fsetxattr fsmount fsopen fspick fsqrt fstat fstatat fstatfs fstatvfs fsub fsync ftell ftello
ftime ftok ftruncate ftrylockfile ftw funlockfile futimens futimes futimesat fwide fwprintf fwrite
fwscanf gai_cancel gai_error gai_strerror gai_suspend gamma gcvt get_avphys_pages
get_current_dir_name get_kernel_syms get_myaddress get_nprocs get_nprocs_conf get_phys_pages
getaddrinfo getaddrinfo_a getaliasbyname getaliasent getauxval getc getchar getcontext getcpu getcwd
getdate getdate_err getdelim getdents64 getdirentries getdomainname getdtablesize getegid getentropy
getenv geteuid getfsent getfsfile getfsspec getgid getgrent getgrgid getgrnam getgrouplist getgroups
gethostbyaddr gethostbyname gethostbyname2 gethostent gethostid gethostname getifaddrs
getipv4sourcefilter getitimer getline getloadavg getlogin getmntent getmsg getnameinfo getnetbyaddr
getnetbyname getnetent getnetgrent getnetname getopt getopt_long getopt_long_only getpagesize
getpass getpayload getpeername getpgid getpgrp getpid getpmsg getppid getpriority getprotobyname
getprotobynumber getprotoent getpt getpublickey getpw getpwent getpwnam getpwuid getrandom getresgid
getresuid getrlimit getrpcbyname getrpcbynumber getrpcent getrpcport getrusage gets getsecretkey
getservbyname getservbyport getservent getsgent getsgnam getsid getsockname getsockopt
getsourcefilter getspent getspnam getsubopt gettext gettid gettimeofday getttyent getttynam getuid
getusershell getutent getutid getutline getutmp getutmpx getutxent getutxid getutxline getw getwc
getwchar getwd getxattr glob glob_pattern_p globfree gmtime grantpt group_member gsignal gtty
h_errlist h_nerr hasmntopt hcreate hdestroy herror host2netname hsearch hstrerror htonl htons hypot
iconv iconv_close iconv_open ilogb imaxabs imaxdiv in6addr_any in6addr_loopback index init_module
initgroups initstate innetgr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch insque
ioctl ioperm iopl iruserok iruserok_af isalnum isalpha isascii isastream isatty isblank iscntrl
iscntrl_l isctype isdigit isfdtype isgraph isinf isinff isinfl islower isnan isprint ispunct isspace
isupper iswalnum iswalpha iswblank iswcntrl iswcntrl_l iswctype iswdigit iswgraph iswlower iswprint
iswpunct iswspace iswupper iswxdigit isxdigit j0 j1 jn jrand48 kill killpg klogctl l64a labs lchmod
lchown lckpwdf lcong48 ldexp ldiv lfind lgamma lgetxattr link linkat lio_listio listen listxattr
llabs lldiv llistxattr llogb llrint llround llseek loc1 loc2 localeconv localtime lockf locs log
log10 log1p log2 logb login login_tty logout logwtmp longjmp lrand48 lremovexattr lrint lround
lsearch lseek lsetxattr lstat lutimes madvise makecontext mallinfo mallinfo2 malloc mallopt
mallwatch matherr mblen mbrlen mbrtoc16 mbrtoc32 mbrtoc8 mbrtowc mbsinit mbsnrtowcs mbsrtowcs
mbstowcs mbtowc mcheck mcheck_check_all mcheck_pedantic mcount memalign memccpy memchr memcmp memcpy
memfd_create memfrob memmem memmove mempcpy memrchr memset mincore mkdir mkdirat mkdtemp mkfifo
mkfifoat mknod mknodat mkostemp mkostemps mkstemp mkstemps mktemp mktime mlock mlock2 mlockall mmap
modf modff modfl modify_ldt moncontrol monstartup mount mount_setattr move_mount mprobe mprotect
mrand48 mremap msgctl msgget msgrcv msgsnd msync mtrace munlock munlockall munmap muntrace nan
nanosleep nearbyint netname2host netname2user newlocale nextafter nextdown nexttoward nextup
nfsservctl nftw ngettext nice nrand48 ntohl ntohs ntp_adjtime ntp_gettime ntp_gettimex on_exit open
open_by_handle_at open_memstream open_tree open_wmemstream openat opendir openlog openpty optarg
opterr optind optopt parse_printf_format passwd2des pathconf pause pclose perror personality
pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 pivot_root poll popen pow pow10 ppoll prctl
pread preadv preadv2 preadv64v2 printf printf_size printf_size_info prlimit profil pselect psiginfo
psignal ptrace ptsname putc putchar putenv putgrent putmsg putpmsg putpwent puts putsgent putspent
pututline pututxline putw putwc putwchar pvalloc pwrite pwritev pwritev2 pwritev64v2 qecvt qfcvt
qgcvt qsort query_module quick_exit quotactl raise rand random rawmemchr rcmd rcmd_af read readahead
readdir readlink readlinkat readv realloc reallocarray realpath reboot recv recvfrom recvmmsg
recvmsg regcomp regerror regexec regfree register_printf_function register_printf_modifier
register_printf_specifier register_printf_type registerrpc remainder remap_file_pages remove
removexattr remque remquo rename renameat renameat2 revoke rewind rewinddir rexec rexec_af
rexecoptions rindex rint rmdir round roundeven rpmatch rresvport rresvport_af rtime ruserok
ruserok_af ruserpass sbrk scalb scalbln scalbn scandir scandirat scanf secure_getenv seed48 seekdir
select semctl semget semop semtimedop send sendfile sendmmsg sendmsg sendto setaliasent setbuf
setbuffer setcontext setdomainname setegid setenv seteuid setfsent setfsgid setfsuid setgid setgrent
setgroups sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp setlinebuf setlocale
setlogin setlogmask setmntent setnetent setnetgrent setns setpayload setpayloadsig setpgid setpgrp
setpriority setprotoent setpwent setregid setresgid setresuid setreuid setrlimit setrpcent
setservent setsgent setsid setsockopt setsourcefilter setspent setstate settimeofday setttyent
setuid setusershell setutent setutxent setvbuf setxattr sgetsgent sgetspent shm_open shm_unlink
shmat shmctl shmdt shmget shutdown sigabbrev_np sigaction sigaddset sigaltstack sigandset sigblock
sigdelset sigdescr_np sigemptyset sigfillset siggetmask sighold sigignore siginterrupt sigisemptyset
sigismember siglongjmp signal signalfd signgam significand sigorset sigpause sigpending sigprocmask
sigqueue sigrelse sigreturn sigset sigsetmask sigstack sigsuspend sigtimedwait sigvec sigwait
sigwaitinfo sin sincos sinh sleep snprintf sockatmark socket socketpair splice sprintf sprofil sqrt
srand srand48 srandom sscanf ssignal sstk stat statfs statvfs statx stderr stdin stdout step stime
stpcpy stpncpy strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll strcoll_l strcpy strcspn
strdup strerror strerrordesc_np strerrorname_np strfmon strfromd strfromf strfroml strfry strftime
strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime strrchr strsep strsignal
strspn strstr strtod strtof strtof128_l strtof32_l strtof32x_l strtof64_l strtof64x_l strtof_l
strtoimax strtok strtol strtol_l strtold strtoll strtoq strtoul strtoul_l strtoull strtoumax strtouq
strverscmp strxfrm stty svcauthdes_stats svcfd_create svcraw_create svctcp_create svcudp_bufcreate
svcudp_create svcudp_enablecache svcunix_create svcunixfd_create swab swapcontext swapoff swapon
swprintf swscanf symlink symlinkat sync sync_file_range syncfs syscall sysconf sysctl sysinfo syslog
system sysv_signal tan tanh tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak
tcsetattr tcsetpgrp tdelete tdestroy tee telldir tempnam textdomain tfind tgamma tgkill time timegm
timelocal times timespec_get timespec_getres timezone tmpfile tmpnam toascii tolower totalorder
totalordermag toupper towctrans towlower towupper tr_break trunc truncate tsearch ttyname ttyslot
twalk tzname tzset ualarm ufromfp ufromfpx ulckpwdf ulimit umask umount umount2 uname ungetc ungetwc
unlink unlinkat unlockpt unsetenv unshare updwtmp updwtmpx uselib uselocale user2netname usleep
ustat utime utimensat utimes utmpname utmpxname valloc vasprintf vdprintf verr verrx versionsort
vfork vfprintf vfscanf vfwprintf vfwscanf vhangup vlimit vmsplice vprintf vscanf vsnprintf vsprintf
vsscanf vswprintf vswscanf vsyslog vtimes vwarn vwarnx vwprintf vwscanf wait wait3 wait4 waitid
waitpid warn warnx wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul wcscmp wcscoll
wcscoll_l wcscpy wcscspn wcsdup wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen
wcsnrtombs wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstof128_l wcstof32_l wcstof32x_l
wcstof64_l wcstof64x_l wcstof_l wcstoimax wcstok wcstol wcstol_l wcstold wcstoll wcstombs wcstoq
wcstoul wcstoul_l wcstoull wcstoumax wcstouq wcswcs wcswidth wcsxfrm wctob wctomb wctrans wctype
wcwidth wmemchr wmemcmp wmemcpy wmemmove wmempcpy wmemset wordexp wordfree wprintf write writev
wscanf xdecrypt xdrmem_create xdrstdio_create xencrypt y0 y1 yn
""".split()
)
"""Functions and variables of ISO C, POSIX and glibc, without those of the families below."""

FAMILIES = """
aio argp argz clnt clntraw clnttcp clntudp clock cnd des envz epoll err ether fts fts64 gnu if inet
inet6 key malloc mq mtx name_to nl ns obstack pkey pmap posix process program_invocation pthread re
res rpc sched sem svc svcerr sys thrd timer timerfd tss xdr xdrrec xprt authnone authunix authdes
""".split()
"""What names of threads, sockets, clocks and the like begin with, before a _."""

_FAMILY = re.compile(rf"({'|'.join(FAMILIES)}|fmaximum|fminimum)_\w*[^\W_]")
_TYPED = re.compile(r"f\d+x?(add|div|fma|mul|sqrt|sub)f\d+x?|(strfrom|(str|wcs)to)f\d+x?")
ENDINGS = ("f", "l", "64", "f32", "f64", "f128", "f32x", "f64x", "_r", "_l", "_unlocked", "_chk")
"""Of functions for other types, locales and threads, at most two of them: cosf, lgammaf_r."""


def in_c_library(name: str) -> bool:
    """Whether the C library has, or may get, a function or a variable of this name."""
    stems = {name, *_without_ending(name)}
    stems |= {stem for one in stems for stem in _without_ending(one)}
    others = _FAMILY.fullmatch(name) or _TYPED.fullmatch(name)
    return others is not None or not stems.isdisjoint(FUNCTIONS)


def _without_ending(name: str) -> list[str]:
    return [name[: -len(end)] for end in ENDINGS if name.endswith(end)]
