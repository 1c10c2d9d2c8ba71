import { useEffect, useRef, useState } from 'preact/hooks'
import { devnet } from '../wallets/devnet.ts'
import type { Keys, OpenedKey } from './page_state.ts'
import { readTerms } from './terms.ts'

export function useKeys(): Keys {
  const [isTestMoney, setTestMoney] = useState(false)
  const [terms, setTerms] = useState<Keys['terms']>('reading')
  const [opened, setOpened] = useState<OpenedKey>()
  const [suggested, setSuggested] = useState<bigint>()
  const [step, setStep] = useState('')
  const [news, setNews] = useState('')
  const [problem, setProblem] = useState<string>()
  const top = useRef<HTMLDivElement>(null)

  useEffect(() => {
    void devnet().then((info) => setTestMoney(info !== undefined))
    readTerms().then(
      (read) => setTerms(read ?? 'off'),
      (error: Error) => setProblem(error.message),
    )
    // A page that the browser keeps for its back button must not keep the key.
    const forget = () => setOpened(undefined)
    addEventListener('pagehide', forget)
    return () => removeEventListener('pagehide', forget)
  }, [])

  const isVisible = opened?.isVisible ?? false
  useEffect(() => {
    if (!isVisible) return
    top.current?.scrollIntoView({ block: 'start' })
    const warn = (event: Event) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [isVisible])

  const state = { isTestMoney, terms, opened, suggested, step, news, problem, top }
  return { ...state, setOpened, setSuggested, setStep, setNews, setProblem }
}
