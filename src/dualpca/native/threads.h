/* Threads that wait for shares of work.
 *
 * A product may take less time than it takes to start a thread, so threads stay: after a share they watch for
 * the next one for a fifth of a millisecond, then sleep. They work for one caller at a time, and another one
 * meanwhile does all its shares itself. A child process begins without threads.
 */
enum { MOST_THREADS = 64, WATCHED = 200000 /* nanoseconds */ };

static struct {
    pthread_mutex_t caller, lock;
    pthread_cond_t begun;
    int threads, away_from;
    pthread_t ids[MOST_THREADS];
    long since[MOST_THREADS];
    void *(*work)(void *);
    char *shares;
    size_t size;
    atomic_long call; /* its number and how many shares it has: a thread without one must not take a later one's */
    atomic_int left;
} pool = {.caller = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER, .away_from = -1};

static void relax(void)
{
#if defined(__x86_64__)
    for (int i = 0; i < 16; i++) __builtin_ia32_pause();
#elif defined(__aarch64__)
    for (int i = 0; i < 16; i++) __asm__ volatile("yield");
#endif
}

static long nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *wait_for_work(void *argument)
{
    const int index = (int)(intptr_t)argument;
    sigset_t signals; /* are for the threads of Python */
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (long seen = pool.since[index], call;;) {
        const long end = nanoseconds() + WATCHED;
        while ((call = atomic_load(&pool.call)) == seen && nanoseconds() < end) relax();
        if (call == seen) {
            pthread_mutex_lock(&pool.lock);
            while ((call = atomic_load(&pool.call)) == seen) pthread_cond_wait(&pool.begun, &pool.lock);
            pthread_mutex_unlock(&pool.lock);
        }
        seen = call;
        if (index + 1 < call % (MOST_THREADS + 1)) {
            pool.work(pool.shares + (index + 1) * pool.size);
            atomic_fetch_sub(&pool.left, 1);
        }
    }
    return NULL;
}

/* Keep the threads off the processor of this one. Linux may run them there though others are idle, and they
 * then wait until this thread has done its own share. */
static void keep_away(int first)
{
#ifdef __GLIBC__
    cpu_set_t allowed;
    const int here = sched_getcpu();
    if (here == pool.away_from && first == pool.threads) return;
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed)) return;
    CPU_CLR(here, &allowed);
    if (!CPU_COUNT(&allowed)) return;
    for (int i = here == pool.away_from ? first : 0; i < pool.threads; i++)
        pthread_setaffinity_np(pool.ids[i], sizeof allowed, &allowed);
    pool.away_from = here;
#else
    (void)first;
#endif
}

static void forget_threads(void)
{
    pthread_mutex_init(&pool.caller, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.begun, NULL);
    pool.threads = 0, pool.away_from = -1;
}

/* Work on the shares, on the first in this thread. */
static void run(void *(*work)(void *), void *shares, size_t size, int count)
{
    const int alone = count < 2 || pthread_mutex_trylock(&pool.caller);
    int helpers = 0;
    if (!alone) {
        const int before = pool.threads;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        while (pool.threads < count - 1) {
            pool.since[pool.threads] = atomic_load(&pool.call);
            if (pthread_create(&pool.ids[pool.threads], &attributes, wait_for_work, (void *)(intptr_t)pool.threads)) break;
            pool.threads++;
        }
        pthread_attr_destroy(&attributes);
        keep_away(before);
        helpers = pool.threads < count - 1 ? pool.threads : count - 1;
        pool.work = work, pool.shares = shares, pool.size = size;
        atomic_store(&pool.left, helpers);
        pthread_mutex_lock(&pool.lock);
        const long number = atomic_load(&pool.call) / (MOST_THREADS + 1) + 1;
        atomic_store(&pool.call, number * (MOST_THREADS + 1) + helpers + 1);
        pthread_cond_broadcast(&pool.begun);
        pthread_mutex_unlock(&pool.lock);
    }
    work(shares);
    for (int i = helpers + 1; i < count; i++) work((char *)shares + i * size);
    if (!alone) {
        for (const long end = nanoseconds() + WATCHED; atomic_load(&pool.left);)
            if (nanoseconds() < end) relax();
            else sched_yield();
        pthread_mutex_unlock(&pool.caller);
    }
}
