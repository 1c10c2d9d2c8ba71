import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import { SignedOut } from './api.ts'

/** Called when the session has ended. */
export const OnSignedOut = createContext<() => void>(() => {})

type Read<T> = { readonly value?: T; readonly problem?: string; readonly at?: number; again(): void }

/**
 * Reads when `key` changes and every `everyMs` while the page is visible. The last value stays until the next one is
 * there, and while a read fails.
 */
export function useRead<T>(key: string, everyMs: number, read: () => Promise<T>): Read<T> {
  const [state, setState] = useState<{ value?: T; problem?: string; at?: number }>({})
  const [turn, setTurn] = useState(0)
  const onSignedOut = useContext(OnSignedOut)
  useEffect(() => {
    let isOver = false
    const once = async () => {
      try {
        const value = await read()
        if (!isOver) setState({ value, at: Date.now() })
      } catch (error) {
        if (isOver) return
        if (error instanceof SignedOut) onSignedOut()
        else setState((before) => ({ ...before, problem: (error as Error).message }))
      }
    }
    void once()
    const timer = everyMs > 0 ? setInterval(() => document.hidden || void once(), everyMs) : undefined
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [key, everyMs, turn])
  return { ...state, again: () => setTurn(turn + 1) }
}

export function Problem({ read }: { read: Read<unknown> }) {
  if (read.problem) return <p role="alert">{read.problem}</p>
  return read.at === undefined ? <p class="soft">Reading…</p> : null
}
