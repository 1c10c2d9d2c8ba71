/** Starts the thread that counts tokens. In a binary the address is that of main.ts, so this file stands beside it. */
export const startTokenWorker = (): Worker => new Worker(new URL('./token_worker.ts', import.meta.url))
